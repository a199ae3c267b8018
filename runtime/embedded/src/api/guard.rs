//! The common frame of all C functions that return a status: it catches panics, raises errors, and
//! then returns -1.

use core::any::Any;
use core::cell::Cell;
use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::parameters::writable;
use crate::cells::failure::Failure;
use crate::tables::raised;

/// Runs the body of the C function `name`: returns 0, or -1 with an error raised.
#[inline]
pub(super) fn status<F: Fn() -> Result<(), Failure>>(name: &str, body: F) -> c_int {
    /// Calls the closure that `body` points to.
    ///
    /// # Safety
    /// `body` is valid and of this type.
    unsafe fn run<F: Fn() -> Result<(), Failure>>(body: *const ()) -> Result<(), Failure> {
        // SAFETY: promised by the caller.
        unsafe { (*body.cast::<F>())() }
    }
    // SAFETY: the body lives for the call, and `run` is the function for its type.
    unsafe { status_of(name, run::<F>, (&raw const body).cast()) }
}

/// The guard shared by all C functions; it would be large in each of them. It never unwinds, which
/// `extern "C"` declares, so that they have no exception tables for the call.
///
/// # Safety
/// `run` may be called with `body`.
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
pub(super) unsafe extern "C" fn status_of(
    name: &str,
    run: unsafe fn(*const ()) -> Result<(), Failure>,
    body: *const (),
) -> c_int {
    // SAFETY: promised by the caller.
    let failure = match catch_unwind(AssertUnwindSafe(|| unsafe { run(body) })) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::internal(format_args!("{name} panicked: {}", panic_message(&*panic))),
    };
    raise(name, failure);
    -1
}

/// The status of the C function `name` whose body cannot panic, which does not need a guard.
#[inline]
pub(super) fn plain_status(name: &str, result: Result<(), Failure>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            raise(name, failure);
            -1
        }
    }
}

/// Runs the body of the C function `name`: returns its value, or `otherwise` with an error raised.
#[inline]
pub(super) fn guarded<T: Copy>(name: &str, otherwise: T, body: impl Fn() -> Result<T, Failure>) -> T {
    let value = Cell::new(otherwise);
    status(name, || {
        value.set(body()?);
        Ok(())
    });
    value.get()
}

/// Raises a failure of the C function `name`. It never unwinds, like [`status_of`].
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "only Rust calls it")]
pub(super) extern "C" fn raise(name: &str, failure: Failure) {
    // SAFETY: the new error's reference is given to the slot.
    unsafe { raised::set_raised_owned(failure.into_error(name)) }
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "no message",
    }
}

/// Implements the C function `name` with one result, whose body cannot panic: returns 0 with the
/// result in `out`, or -1 with an error raised.
#[inline]
pub(super) fn write_to<T>(name: &str, out: *mut T, make: impl FnOnce() -> Result<T, Failure>) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        let value = make()?;
        // SAFETY: a pointer of the caller's that is not NULL is valid: the rule of all C functions.
        unsafe { out.write(value) };
        Ok(())
    };
    plain_status(name, run())
}
