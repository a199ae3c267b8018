//! The callbacks of one run of a walk or rewrite, as the functions that the engine calls.
//!
//! Hooks of foreign types get the visitor, may keep it, and may use it later or elsewhere. The
//! closures borrow from the caller of the run and belong to its thread, so each call first checks
//! that the run is still active, and that this is its thread.

use core::ffi::c_void;
use std::any::Any as Payload;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::{Callback, Region};
use crate::abi::{TVMFFIAny, type_index};
use crate::engines::visit;
use crate::value::{Any, AnyView, IntoAny};
use crate::walker::reentry::this_thread;
use crate::{Error, Function, Result, embedded, provider};

/// The closure that the engine calls with a node and a region or a mutator. Returns an outcome, see
/// `engines::visit::outcome`.
type Call<'a> = Box<dyn FnMut(&AnyView<'_>, &TVMFFIAny) -> TVMFFIAny + 'a>;

/// Like [`Call`], and may be called while it runs.
pub(super) type SharedCall<'a> = Box<dyn Fn(&AnyView<'_>, &TVMFFIAny) -> TVMFFIAny + 'a>;

/// A callback and the index of the type that it is for.
pub(super) struct Entry<'a> {
    target: i32,
    call: Closure<Call<'a>, SharedCall<'a>>,
}

enum Closure<E, S> {
    Exclusive(E),
    Shared(S),
}

impl<'a> Entry<'a> {
    /// Wraps a closure whose result is converted to an outcome, given the node.
    pub(super) fn new<M, F: Callback<M> + 'a>(
        mut callback: F,
        outcome: impl Fn(F::Output, &AnyView<'_>) -> Result<TVMFFIAny> + 'a,
    ) -> Self {
        let call = move |node: &AnyView<'_>, region: &TVMFFIAny| {
            let region = Region::of_number(region.bits().cast_signed());
            let outcome = callback.call(node, region).and_then(|output| outcome(output, node));
            outcome.unwrap_or_else(failed)
        };
        Self { target: F::target(), call: Closure::Exclusive(Box::new(call)) }
    }

    /// Wraps a closure that may be called while it runs.
    pub(super) fn shared(target: i32, call: SharedCall<'a>) -> Self {
        Self { target, call: Closure::Shared(call) }
    }
}

/// The outcome of a callback that failed.
#[cold]
pub(super) fn failed(error: Error) -> TVMFFIAny {
    visit::own(error).into_any().into_raw()
}

/// A run. It ends when it is dropped: from then on the functions call nothing.
pub(super) struct Session {
    shared: Arc<Shared>,
}

/// The shared state of a run's functions. Only the thread of the run accesses the cells.
struct Shared {
    thread: *const c_void,
    runs: Cell<bool>,
    panic: Cell<Option<Box<dyn Payload + Send>>>,
}

/// The closure of such a function.
struct Slot {
    shared: Arc<Shared>,
    call: Closure<*mut Call<'static>, *const SharedCall<'static>>,
    busy: Cell<bool>,
}

// SAFETY: other threads only compare the thread, and drop; the payload of a panic is `Send`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Session {
    /// Runs an operation of the engine with callbacks. A panic of a callback is resumed here.
    pub(super) fn run<const N: usize>(
        entries: [&mut [Entry<'_>]; N],
        operation: impl FnOnce([&[visit::Callback]; N]) -> Result<Any>,
    ) -> Result<Any> {
        provider::api();
        let session = Self::begin();
        let mut functions = [const { Vec::new() }; N];
        for (functions, entries) in functions.iter_mut().zip(entries) {
            // SAFETY: the entries are borrowed until the session ends.
            *functions = unsafe { session.functions(entries)? };
        }
        let outcome = operation(functions.each_ref().map(Vec::as_slice));
        session.end();
        outcome
    }

    /// Begins a run on this thread.
    fn begin() -> Self {
        let shared = Shared { thread: this_thread(), runs: Cell::new(true), panic: Cell::new(None) };
        Self { shared: Arc::new(shared) }
    }

    /// The callbacks as functions.
    ///
    /// # Safety
    /// The entries are not touched or moved before the session is dropped.
    unsafe fn functions(&self, entries: &mut [Entry<'_>]) -> Result<Vec<visit::Callback>> {
        let function = |entry: &mut Entry<'_>| {
            let call = match &mut entry.call {
                Closure::Exclusive(call) => Closure::Exclusive((&raw mut *call).cast()),
                Closure::Shared(call) => Closure::Shared((&raw const *call).cast()),
            };
            let slot = Slot { shared: self.shared.clone(), call, busy: Cell::new(false) };
            // SAFETY: a new function, whose reference is transferred to the value.
            let function = unsafe { Any::from_object(embedded::new_function(enter, slot)) };
            Ok((entry.target, function.to::<Function>()?))
        };
        if entries.len() > visit::MAX_PAIRED {
            crate::bail!(ValueError, "{} callbacks; at most {} are possible", entries.len(), visit::MAX_PAIRED);
        }
        entries.iter_mut().map(function).collect()
    }

    /// Ends the run. A panic of a callback is resumed here.
    fn end(self) {
        let panic = self.shared.panic.take();
        drop(self);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.runs.set(false);
    }
}

unsafe extern "C" fn enter(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `functions`; the rest is the ABI's calling
    // convention: an error that is returned counts as raised for the engine, which is the only one
    // that has the function.
    unsafe {
        let slot: &Slot = embedded::closure_of(this);
        let outcome = if num_args >= 2 {
            slot.call(&AnyView::from_raw(*args), &*args.add(1))
        } else {
            failure("a callback takes a node and a region")
        };
        result.write(outcome);
    }
    0
}

impl Slot {
    /// Calls the closure.
    fn call(&self, node: &AnyView<'_>, more: &TVMFFIAny) -> TVMFFIAny {
        if self.shared.thread != this_thread() || !self.shared.runs.get() {
            return failure("a callback can be called only while the walk or rewrite runs, and on its thread");
        }
        let outcome = match self.call {
            Closure::Exclusive(_) if self.busy.replace(true) => return failure("a callback is called while it runs"),
            Closure::Exclusive(call) => {
                // SAFETY: the run has not ended, so the entry has not moved; no other code uses the
                // closure.
                let call = unsafe { &mut *call };
                let outcome = catch_unwind(AssertUnwindSafe(|| call(node, more)));
                self.busy.set(false);
                outcome
            }
            // SAFETY: the run has not ended, so the entry has not moved.
            Closure::Shared(call) => catch_unwind(AssertUnwindSafe(|| unsafe { &*call }(node, more))),
        };
        outcome.unwrap_or_else(|panic| {
            self.shared.panic.set(Some(panic));
            failure("a callback panicked")
        })
    }
}

#[cold]
fn failure(message: &str) -> TVMFFIAny {
    let error = Error::with_backtrace("RuntimeError", message, "").into_any().into_raw();
    debug_assert!(error.type_index == type_index::ERROR);
    error
}
