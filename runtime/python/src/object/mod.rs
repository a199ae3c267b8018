//! Any Python object, for functions that work with objects of the interpreter themselves.

mod access;
mod compare;
mod convert;
mod iterate;
mod place;
mod raised;
mod unraisable;

use core::fmt;
use core::ptr::NonNull;

use kernpack_core::abi::{TVMFFIObject, TVMFFIOpaqueObjectCell};
use kernpack_core::{Error, Result, embedded};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::interpreter::Lock;
use crate::cpython::object::{Owned, PyResult, Raised};

pub use compare::Comparison;
pub use iterate::Iter;
pub use place::{builtin, caught, import, warn};
pub use raised::{error_of, exception_of};
pub use unraisable::write_unraisable;

/// Any Python object, as it is: nothing is converted or copied.
///
/// A valid parameter, result, field, element of a container and key of a `HashMap`. Each operation
/// takes the interpreter's lock if this thread does not hold it. A clone is another reference,
/// which needs no lock. The last one takes the lock when it is dropped, so do not drop it while you
/// hold a mutex that a thread with the lock may wait for. After Python has ended, dropping does
/// nothing.
///
/// An exception that Python raises is an error that carries it: returned to Python, it is the same
/// exception again.
///
/// `==` and `Hash` are those of a Python `dict`: an object is equal to itself, otherwise `__eq__`
/// decides. If `__eq__` or `__hash__` raises, the result is `false` or 0, and the call from Python
/// that contains the operation raises the exception when it returns; [`caught`] returns it earlier.
#[repr(transparent)]
pub struct Object(NonNull<TVMFFIObject>);

// SAFETY: counts are atomic, and each use of the Python object takes the interpreter's lock.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Clone for Object {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the opaque object is alive.
        unsafe { embedded::inc_ref(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Object {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is owned.
        unsafe { embedded::dec_ref(self.0.as_ptr()) }
    }
}

impl Object {
    /// The handle that takes over a reference to a Python object.
    fn of(object: Owned) -> Self {
        // SAFETY: new objects are not at address 0.
        Self(unsafe { NonNull::new_unchecked(exception::opaque(object)) })
    }

    /// The Python object, alive as long as this handle.
    #[inline]
    fn handle(&self) -> *mut PyObject {
        // SAFETY: the opaque object is alive; it is one of Python.
        unsafe { embedded::body::<TVMFFIOpaqueObjectCell>(self.0.as_ptr()) }.handle.cast()
    }

    /// Returns true if both are the same Python object, like `is`.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.handle() == other.handle()
    }

    /// Returns the text of `repr(object)`.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn repr(&self) -> Result<String> {
        // SAFETY: the object is alive, and the lock is held.
        with(|py| unsafe { text(py, Owned::take(py, py.PyObject_Repr(self.handle()))) })
    }

    /// Returns the text of `str(object)`.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn str(&self) -> Result<String> {
        // SAFETY: as for `repr`.
        with(|py| unsafe { text(py, Owned::take(py, py.PyObject_Str(self.handle()))) })
    }

    /// Returns `bool(object)`.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn is_true(&self) -> Result<bool> {
        // SAFETY: as for `repr`.
        with(|py| truth(unsafe { py.PyObject_IsTrue(self.handle()) }))
    }

    /// Returns the class of the object.
    ///
    /// # Errors
    /// Returns an error if Python has ended.
    pub fn class(&self) -> Result<Self> {
        // SAFETY: as for `repr`.
        with(|py| Ok(Self::of(unsafe { py.class_of(self.handle()) })))
    }

    /// Returns `isinstance(object, class)`; `class` may be a tuple of classes.
    ///
    /// # Errors
    /// Returns the exception that Python raises, such as a TypeError if `class` is not a class.
    pub fn is_instance(&self, class: &Self) -> Result<bool> {
        // SAFETY: both are alive, and the lock is held.
        with(|py| truth(unsafe { py.PyObject_IsInstance(self.handle(), class.handle()) }))
    }
}

/// Shows `str(object)`; a placeholder if that raises.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.str().unwrap_or_else(|_| "<no text>".to_owned()))
    }
}

/// Shows `repr(object)`; a placeholder if that raises.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.repr().unwrap_or_else(|_| "<no text>".to_owned()))
    }
}

/// Runs code with the interpreter's lock, and converts an exception to an error.
fn with<R>(run: impl FnOnce(Py) -> PyResult<R>) -> Result<R> {
    let lock = Lock::of_any().ok_or_else(absent)?;
    let _aside = exception::Aside::new(lock.py());
    run(lock.py()).map_err(|Raised| exception::take(lock.py()))
}

#[cold]
fn absent() -> Error {
    Error::runtime_error(
        "a Python object cannot be used: Python has ended in this process, or has not imported this library",
    )
}

/// The text of a new `str`.
fn text(py: Py, text: PyResult<Owned>) -> PyResult<String> {
    let text = text?;
    // SAFETY: a live `str`, which lives until its bytes were copied.
    Ok(String::from_utf8_lossy(unsafe { py.utf8(text.as_ptr())? }).into_owned())
}

/// The answer of a function of CPython; a negative one means that it raised an exception.
fn truth(answer: core::ffi::c_int) -> PyResult<bool> {
    if answer < 0 { Err(Raised) } else { Ok(answer != 0) }
}
