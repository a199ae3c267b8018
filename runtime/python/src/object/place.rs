//! Modules, builtins and warnings of the interpreter.

use std::ffi::CString;

use kernpack_core::{Error, Result};

use super::{Object, with};
use crate::cpython::object::Raised;
use crate::cpython::pending;

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::value_error("a text for Python has a NUL character; remove it"))
}

/// Imports a module, such as `collections.abc`, and returns it.
///
/// # Errors
/// Returns the exception that Python raises: a ModuleNotFoundError if there is no such module.
pub fn import(name: &str) -> Result<Object> {
    let name = c_string(name)?;
    with(|py| py.import(&name).map(Object::of))
}

/// Returns a builtin of Python, such as `sorted` or `DeprecationWarning`.
///
/// # Errors
/// Returns an AttributeError if there is no such builtin.
pub fn builtin(name: &str) -> Result<Object> {
    import("builtins")?.attribute(name)
}

/// Issues a warning of a category, which is a class. With `level` 1 it names the line that called
/// the library, with 2 the caller of that line.
///
/// # Errors
/// Returns the warning as an exception if the user's filters turn it into one.
pub fn warn(category: &Object, message: &str, level: usize) -> Result<()> {
    let message = c_string(message)?;
    let level = isize::try_from(level).unwrap_or(isize::MAX);
    // SAFETY: the category is alive, and the text lives for the call.
    with(|py| match unsafe { py.PyErr_WarnEx(category.handle(), message.as_ptr(), level) } {
        0 => Ok(()),
        _ => Err(Raised),
    })
}

/// Runs code, and returns the first exception of an `==` or hash of an [`Object`] in it, which the
/// operation itself could not return: a lookup in a `HashMap`, for example.
///
/// # Errors
/// Returns that exception.
pub fn caught<R>(run: impl FnOnce() -> R) -> Result<R> {
    pending::caught(run)
}
