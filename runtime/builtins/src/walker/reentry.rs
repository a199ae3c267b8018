//! The function with which a hook calls back into the operation that called it.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;

use super::stack_space;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::function::check;
use crate::definition::signature::{Signature, type_key};
use crate::function::{guard_nameless, views};
use crate::value::{Any, AnyView};
use crate::{Error, Result, bail, embedded, error};
use kernpack_core::reflect::{AttrColumn, call_function};

/// The implementation of the function: it gets the operation and its arguments, which match the
/// signature.
pub(crate) type Run = unsafe fn(operation: *mut c_void, args: &[AnyView<'_>]) -> Result<Any>;

/// A function that calls back into an operation while a hook of it runs.
pub(crate) struct Reentry {
    function: *mut TVMFFIObject,
}

struct Closure {
    signature: &'static Signature,
    run: Run,
    /// The thread that the operation runs on.
    thread: *const c_void,
    /// The operation, while a hook runs; else NULL. Used by its thread only.
    operation: Cell<*mut c_void>,
}

thread_local! {
    /// A variable whose address identifies the thread, as long as it runs.
    static HERE: u8 = const { 0 };
}

/// An address that only this thread has, as long as it runs.
pub(crate) fn this_thread() -> *const c_void {
    HERE.try_with(|here| ptr::from_ref(here).cast()).unwrap_or_default()
}

impl Reentry {
    /// Creates a function with this signature.
    pub(crate) fn new(signature: &'static Signature, run: Run) -> Self {
        let closure = Closure { signature, run, thread: this_thread(), operation: Cell::new(ptr::null_mut()) };
        Self { function: embedded::new_function(enter, closure) }
    }

    /// The function, borrowed.
    pub(crate) const fn function(&self) -> *mut TVMFFIObject {
        self.function
    }
}

impl Drop for Reentry {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { embedded::dec_ref(self.function) }
    }
}

/// A type's hook, which must be a function.
#[inline]
pub(crate) fn hook(column: &AttrColumn, index: i32, signature: &str) -> Result<Option<TVMFFIAny>> {
    match column.get(index) {
        None => Ok(None),
        Some(hook) if hook.type_index() == type_index::FUNCTION => Ok(Some(*hook.as_raw())),
        Some(hook) => Err(no_function(&hook, signature)),
    }
}

#[cold]
fn no_function(hook: &AnyView<'_>, signature: &str) -> Error {
    error!(TypeError, "Cannot treat type `{}` as type `{signature}`", type_key(hook))
}

/// Calls a hook with these arguments, followed by the function of a [`Reentry`].
///
/// # Safety
/// `hook` is a live function, and the arguments are valid views. The last one is overwritten with
/// the function. `operation` is the argument that the reentry's `run` expects, and no other code
/// uses it during the call.
pub(crate) unsafe fn call_hook<const N: usize>(
    hook: *mut TVMFFIObject,
    mut args: [TVMFFIAny; N],
    function: *mut TVMFFIObject,
    operation: *mut c_void,
) -> Result<Any> {
    stack_space::check()?;
    // SAFETY: promised by the caller; the function is a reentry's.
    unsafe {
        let closure: &Closure = embedded::closure_of(function.cast());
        args[N - 1] = TVMFFIAny::pointer(type_index::FUNCTION, function.cast());
        let outer = closure.operation.replace(operation);
        let result = call_function(hook, &args);
        closure.operation.set(outer);
        result
    }
}

unsafe extern "C" fn enter(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `Reentry::new`; the rest is the ABI's calling
    // convention. The operation waits for the hook on this thread, and lends itself to whom the
    // hook calls.
    unsafe {
        let closure: &Closure = embedded::closure_of(this);
        let views = views(args, num_args);
        if !check("", closure.signature, views) {
            return -1;
        }
        guard_nameless(|| {
            let operation = if closure.thread == this_thread() { closure.operation.get() } else { ptr::null_mut() };
            if operation.is_null() {
                bail!(RuntimeError, "a hook's callback can be called only while the hook runs, and on its thread");
            }
            result.write((closure.run)(operation, views)?.into_raw());
            Ok(())
        })
    }
}
