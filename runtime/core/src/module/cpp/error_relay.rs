//! Passes errors from virtual functions of Rust modules to Rust callers in other artifacts.
//!
//! Two Kernpack libraries, or a program and a library, call each other's modules through the C++
//! vtable, which reports errors only by C++ exceptions; and without the stock library in the
//! process, none can be thrown. So a Rust caller stores a marker in the thread's slot for raised
//! errors, and a virtual function that fails and finds the marker there replaces it with its error.

use core::ptr;

use crate::provider;
use crate::{Error, Result};

/// Kind of the marker.
const LISTENS: &str = "kernpack.Listens";

/// Prefix of the kind of an error that replaced the marker.
const SAYS: &str = "kernpack.Says.";

/// Takes the error out of the slot, which is empty afterwards.
fn take() -> Option<Error> {
    let mut object = ptr::null_mut();
    // SAFETY: `object` is writable; this function owns a non-NULL result.
    unsafe {
        (provider::api().error_move_from_raised)(&mut object);
        (!object.is_null()).then(|| Error::from_raw(object))
    }
}

/// Calls a virtual function. The error is the one that the call returns, or else the one that a
/// Rust module stored in the slot.
pub(in crate::module) fn listening<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = take();
    Error::with_backtrace(LISTENS, "", "").raise();
    let result = call();
    let said = take().and_then(|error| {
        let kind = error.kind().strip_prefix(SAYS)?;
        Some(Error::with_backtrace(kind, error.message(), error.backtrace()))
    });
    if let Some(before) = before {
        before.raise();
    }
    match said {
        Some(error) => result.and(Err(error)),
        None => result,
    }
}

/// Passes the error to the caller of a virtual function, if the caller has stored the marker;
/// otherwise returns the error.
pub(in crate::module) fn tell(error: Error) -> Option<Error> {
    let in_slot = take();
    if in_slot.as_ref().is_some_and(|in_slot| in_slot.kind() == LISTENS) {
        Error::with_backtrace(&format!("{SAYS}{}", error.kind()), error.message(), error.backtrace()).raise();
        return None;
    }
    if let Some(in_slot) = in_slot {
        in_slot.raise();
    }
    Some(error)
}
