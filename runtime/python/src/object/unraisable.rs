//! Errors that cannot be returned.

use core::ptr;

use kernpack_core::Error;

use super::{Object, with};
use crate::cpython::exception;

/// Reports an error that cannot be returned, for example in a callback that a crate calls without a
/// way to stop: calls `sys.unraisablehook` with the exception. `object` is what it belongs to, such
/// as the arguments of the callback. After Python has ended, this does nothing.
pub fn write_unraisable(error: &Error, object: Option<&Object>) {
    let object = object.map_or(ptr::null_mut(), Object::handle);
    // Python has ended: there is no hook any more.
    let _ = with(|py| {
        exception::raise(py, error);
        // SAFETY: an exception is set, which the function takes; the object is alive, or NULL.
        unsafe { py.PyErr_WriteUnraisable(object) };
        Ok(())
    });
}
