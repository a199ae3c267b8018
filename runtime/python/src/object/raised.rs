//! Exceptions of Python that errors carry.

use kernpack_core::{Error, Result};

use super::{Object, with};
use crate::cpython::exception;
use crate::cpython::object::Owned;

/// Returns the exception of Python that an error carries, with its traceback, cause and context:
/// one that a callable or an operation on an [`Object`] raised. `None` for all other errors.
pub fn exception_of(error: &Error) -> Option<Object> {
    with(|py| Ok(exception::exception_in(py, error).map(Object::of))).ok().flatten()
}

/// Returns the error that carries an exception of Python: returned to Python, it raises this
/// object. With `class.call(args)?` it is a new exception of any class.
///
/// # Errors
/// Returns a TypeError if the object is not an exception.
pub fn error_of(exception: &Object) -> Result<Error> {
    let made = with(|py| {
        // SAFETY: the object is alive.
        unsafe {
            let object = exception.handle();
            Ok(exception::is_instance(py, object).then(|| exception::error_of(py, Owned::share(py, object))))
        }
    })?;
    match made {
        Some(error) => Ok(error),
        None => {
            let class = exception.class()?.attribute("__name__")?;
            Err(Error::type_error(format!("expected an exception, got {class}; call its class if it is one")))
        }
    }
}
