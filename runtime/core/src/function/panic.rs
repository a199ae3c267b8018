//! The only place where panics are caught.
//!
//! Goal: no panic unwinds into another language, and a panic in a packed function, closure or
//! getter becomes an `InternalError` with the panic's message, file and line. Mechanism:
//! `catch_unwind` around each entry point, and a panic hook, installed when the artifact binds to
//! its provider, that records the location of the thread's last panic and then calls the previous
//! hook (so Rust's usual message still goes to stderr). Under `panic = "abort"` a panic ends the
//! process, as that setting promises. Not guaranteed: that data which the panicking code was
//! changing is consistent.

use core::any::Any as Payload;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use super::FunctionInfo;
use super::packed::frame;
use crate::value::ResultPlace;
use crate::{Error, Result, embedded};

thread_local! {
    /// File and line of this thread's last panic.
    static PLACE: Cell<Option<(String, u32)>> = const { Cell::new(None) };
}

/// Installs a hook that records the location of panics. Runs once per artifact.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    if std::thread::panicking() {
        // The hook cannot be changed at this moment. Errors of panics then lack the location;
        // everything else works.
        return;
    }
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|location| (location.file().to_owned(), location.line()));
            // In a thread that is ending, the thread-local may be gone already.
            let _ = PLACE.try_with(|last| last.set(place));
            before(panic);
        }));
    });
}

/// Runs an entry point's body. Returns 0 if it returns `Ok`, else raises the error and returns -1.
/// `result` is the place of the body's result.
#[inline(always)]
pub(crate) fn guard(info: &'static FunctionInfo, result: ResultPlace, body: impl FnOnce() -> Result<()>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => raise(info, error, result),
        Err(payload) => raise(info, panicked(payload), result),
    }
}

/// Like [`guard`], for an entry point without a name in the backtrace: a field getter, a kernel.
#[doc(hidden)]
pub fn guard_nameless(body: impl FnOnce() -> Result<()>) -> i32 {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(payload) => panicked(payload),
    };
    error.raise();
    -1
}

/// Runs user code where a panic would end the process or poison a lock; a panic becomes an error.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload)))
}

#[cold]
#[inline(never)]
fn raise(info: &FunctionInfo, error: Error, result: ResultPlace) -> i32 {
    // An error that the caller takes directly does not show frames.
    let mut error = match result.put_error(error) {
        Ok(()) => return -1,
        Err(error) => error,
    };
    add_frame(&mut error, info);
    error.raise();
    -1
}

/// Adds the frame of a packed function that an error leaves: while it propagates, the error
/// collects them. The frame where it was created is already there, without a name; closures do not
/// have a line of their own.
#[inline]
#[doc(hidden)]
pub fn add_frame(error: &mut Error, info: &FunctionInfo) {
    if !error.name_last_frame(info.global_name.unwrap_or(info.name)) && info.line > 0 {
        error.append_backtrace(&frame(info));
    }
}

/// Converts a panic to an error.
#[cold]
fn panicked(payload: Box<dyn Payload + Send>) -> Error {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.as_str()
    } else {
        "a value that is not text"
    };
    let error = match PLACE.try_with(Cell::take).ok().flatten() {
        Some((file, line)) => Error::with_backtrace(
            "InternalError",
            &format!("panicked at {file}:{line}: {text}"),
            &embedded::backtrace_frame(&file, line, "<panic>"),
        ),
        None => Error::with_backtrace("InternalError", &format!("panicked: {text}"), ""),
    };
    embedded::discard_panic(payload);
    error
}
