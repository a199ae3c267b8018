//! Conversion of errors of the ABI to Python exceptions, and back. An exception that passes through
//! Rust code stays the same object: the error carries it.

mod class;
mod details;
mod traceback;

use core::ffi::c_void;
use core::ptr;

use kernpack_core::abi::{TVMFFIErrorCell, TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};
use kernpack_core::container::Details;
use kernpack_core::{Error, SystemError, embedded};

use super::capi::{Py, PyObject, constant};
use super::object::{Owned, PyResult, Raised};

pub(crate) use class::class_of;
use class::usual;
pub(crate) use traceback::is_shown as shows_frames;

/// Sets the Python exception for an error.
#[cold]
pub(crate) fn raise(py: Py, error: &Error) -> Raised {
    // The provider's frontend has set an exception itself, while it handled a signal.
    // SAFETY: the lock is held.
    if error.kind_bytes() == b"EnvErrorAlreadySet" && unsafe { !py.PyErr_Occurred().is_null() } {
        return Raised;
    }
    match set(py, error) {
        // An exception is set in both cases; the other one is about what the error carries.
        Ok(()) | Err(Raised) => Raised,
    }
}

/// Sets the exception for an error.
fn set(py: Py, error: &Error) -> PyResult<()> {
    if !has_parts(error)
        && !traceback::is_shown()
        && let Some(class) = usual(py, kind_of(error).as_bytes())
    {
        let text = py.new_text(error.message_bytes())?;
        // SAFETY: a class of exceptions and a text.
        unsafe { py.PyErr_SetObject(class, text.as_ptr()) };
        return Ok(());
    }
    let (exception, is_carried) = py.nested(|py| exception_for(py, error))?;
    if is_carried {
        // As it was: `PyErr_SetObject` would replace its context.
        put_back(py, exception);
        return Ok(());
    }
    // SAFETY: an exception and its class, which need not be the one that was called.
    unsafe { py.PyErr_SetObject(py.type_of(exception.as_ptr()), exception.as_ptr()) };
    Ok(())
}

/// Returns true if an error carries more than its texts and the mark of a number out of range.
fn has_parts(error: &Error) -> bool {
    // SAFETY: an error's cell follows its header. Cause and context are NULL or objects.
    unsafe {
        let cell = embedded::body::<TVMFFIErrorCell>(error.as_ptr());
        let context = cell.extra_context;
        !cell.cause_chain.is_null() || !context.is_null() && (*context).type_index != type_index::STR
    }
}

/// The exception for an error, with its causes as `__cause__`, its details, and its frames if they
/// are shown; and true if it is the one from which the error was created.
fn exception_for(py: Py, error: &Error) -> PyResult<(Owned, bool)> {
    let detailed = Details::of(error);
    let (details, error) = match &detailed {
        Some((details, plain)) => (Some(details), plain),
        None => (None, error),
    };
    let args = details.and_then(|details| details.args.as_ref()).map(|args| details::tuple(py, args)).transpose()?;
    // SAFETY: exceptions, classes of exceptions and a tuple; the function takes the reference to
    // the cause over.
    unsafe {
        let own = carried(py, error).map(|own| Owned::share(py, own));
        let is_carried = own.is_some();
        let exception = match (own, args) {
            (Some(own), None) => own,
            (Some(own), Some(args)) => {
                if py.PyObject_SetAttrString(own.as_ptr(), c"args".as_ptr(), args.as_ptr()) != 0 {
                    return Err(Raised);
                }
                own
            }
            (None, args) => {
                let class = class_of(py, kind_of(error))?;
                let new = match args {
                    Some(args) => Owned::take(py, py.PyObject_CallObject(class.as_ptr(), args.as_ptr()))?,
                    None => instance(py, error, class.as_ptr())?,
                };
                check_exception(py, &new, class.as_ptr())?;
                new
            }
        };
        if let Some(cause) = error.cause() {
            let (cause, _) = py.nested(|py| exception_for(py, &cause))?;
            py.PyException_SetCause(exception.as_ptr(), cause.into_ptr());
        }
        if let Some(details) = details {
            details::apply(py, exception.as_ptr(), details)?;
        }
        match traceback::is_shown() {
            true => Ok((traceback::with_frames(py, exception, error.backtrace())?, is_carried)),
            false => Ok((exception, is_carried)),
        }
    }
}

/// Creates the exception for an error. An operating system error has `errno` and the names of the
/// files, which are parsed from its message.
///
/// # Safety
/// `class` is a class of exceptions.
unsafe fn instance(py: Py, error: &Error, class: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new objects are those that the class takes.
    unsafe {
        let read = SystemError::read(error.message());
        let Some(read) = read.filter(|_| py.PyType_IsSubtype(class, py.PyExc_OSError()) != 0) else {
            // The value of an iterator that has ended is None.
            return match error.kind_bytes() == b"StopIteration" && error.message_bytes().is_empty() {
                true => py.call(class, []),
                false => py.call(class, [py.text_of(error.message_bytes())?]),
            };
        };
        let number = Owned::take(py, py.PyLong_FromLongLong(read.number.into()))?;
        let text = py.text(read.text)?;
        match (read.path, read.other_path) {
            (None, _) => py.call(class, [number, text]),
            (Some(path), None) => py.call(class, [number, text, py.text(path)?]),
            (Some(path), Some(other)) => {
                // Between the two is the number of Windows.
                py.call(class, [number, text, py.text(path)?, Owned::share(py, py.none()), py.text(other)?])
            }
        }
    }
}

/// Rejects a result of calling an exception class that is not an exception: `__new__` may return
/// any object.
///
/// # Safety
/// `class` is alive.
unsafe fn check_exception(py: Py, object: &Owned, class: *mut PyObject) -> PyResult<()> {
    // SAFETY: the object is alive, and promised by the caller.
    unsafe {
        if is_instance(py, object.as_ptr()) {
            return Ok(());
        }
        let (class, found) = (py.str_of(class), py.class_name(object.as_ptr()));
        let text = format!(
            "calling {class} returned an object of type {found}, which is not an exception; its __new__ has to return one"
        );
        Err(py.raise(py.PyExc_TypeError(), &text))
    }
}

/// Returns true if an object is an exception.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn is_instance(py: Py, object: *mut PyObject) -> bool {
    // SAFETY: promised by the caller.
    unsafe { py.PyType_GetFlags(py.type_of(object)) & constant::BASE_EXCEPTION_SUBCLASS != 0 }
}

/// The Python exception from which an error was created, borrowed from the error.
fn carried(py: Py, error: &Error) -> Option<*mut PyObject> {
    // SAFETY: an error's cell follows its header. Its context is NULL or an object, and an opaque
    // one holds a Python object: of this interpreter, because no other one shares its objects.
    unsafe {
        let context = embedded::body::<TVMFFIErrorCell>(error.as_ptr()).extra_context;
        if context.is_null() || (*context).type_index != type_index::OPAQUE_PY_OBJECT {
            return None;
        }
        let object = embedded::body::<TVMFFIOpaqueObjectCell>(context).handle.cast::<PyObject>();
        (!object.is_null() && is_instance(py, object)).then_some(object)
    }
}

/// The kind of an error, or a more precise one that only Python's own classes have.
fn kind_of(error: &Error) -> &str {
    let kind = error.kind();
    // A generated constructor adds the name of the field to the error of its setter.
    let of_field =
        || error.message().contains(".__ffi_init__() ") && error.cause().is_some_and(|cause| cause.is_out_of_range());
    match kind == "ValueError" && (error.is_out_of_range() || of_field()) {
        true => "OverflowError",
        false => kind,
    }
}

/// Takes the exception that is set on this thread.
pub(crate) fn take_exception(py: Py) -> Option<Owned> {
    // SAFETY: each function gives references to the caller; the three of the older way belong
    // together.
    unsafe {
        if let Some(take) = py.PyErr_GetRaisedException() {
            return Owned::take(py, take()).ok();
        }
        let (mut class, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        py.PyErr_Fetch(&mut class, &mut value, &mut traceback);
        py.PyErr_NormalizeException(&mut class, &mut value, &mut traceback);
        let class = Owned::take(py, class);
        let value = Owned::take(py, value).ok();
        if let (Ok(traceback), Some(value)) = (Owned::take(py, traceback), &value)
            && is_instance(py, value.as_ptr())
        {
            py.PyException_SetTraceback(value.as_ptr(), traceback.as_ptr());
        }
        drop(class);
        value
    }
}

/// Sets an exception that was taken, unchanged.
pub(crate) fn put_back(py: Py, exception: Owned) {
    // SAFETY: the function takes the three references over.
    unsafe {
        let class = py.type_of(exception.as_ptr());
        py.Py_IncRef(class);
        let traceback = py.PyException_GetTraceback(exception.as_ptr());
        py.PyErr_Restore(class, exception.into_ptr(), traceback);
    }
}

/// The exception that was set on this thread before code of Python runs, and is set again
/// afterwards: CPython frees objects while one is set, and a destructor may call Python.
pub(crate) struct Aside {
    py: Py,
    exception: Option<Owned>,
}

impl Aside {
    /// Takes the exception, if one is set.
    #[inline]
    pub(crate) fn new(py: Py) -> Self {
        // SAFETY: the lock is held.
        let is_set = unsafe { !py.PyErr_Occurred().is_null() };
        Self { py, exception: if is_set { take_exception(py) } else { None } }
    }
}

impl Drop for Aside {
    #[inline]
    fn drop(&mut self) {
        if let Some(exception) = self.exception.take() {
            put_back(self.py, exception);
        }
    }
}

/// Converts the exception that is set on this thread to an error, which carries it.
#[cold]
pub(crate) fn take(py: Py) -> Error {
    match take_exception(py) {
        Some(exception) => error_of(py, exception),
        None => Error::internal_error("Python reported an exception but raised none"),
    }
}

/// The error that carries an exception.
pub(crate) fn error_of(py: Py, exception: Owned) -> Error {
    // SAFETY: the exception is alive; the error adds its own reference to the context, and the
    // first one is released here.
    unsafe {
        let kind = py.class_name(exception.as_ptr());
        let message = py.str_of(exception.as_ptr());
        let context = opaque(exception);
        let error = embedded::new_error(kind.as_bytes(), message.as_bytes(), b"", ptr::null_mut(), context);
        embedded::dec_ref(context);
        Error::from_raw(error)
    }
}

/// The exception that an error carries.
pub(crate) fn exception_in(py: Py, error: &Error) -> Option<Owned> {
    let detailed = Details::of(error);
    let error = detailed.as_ref().map_or(error, |(_, plain)| plain);
    // SAFETY: the error keeps the exception alive.
    carried(py, error).map(|own| unsafe { Owned::share(py, own) })
}

/// Converts a Python object to an object of the ABI, which takes over its reference.
pub(crate) fn opaque(object: Owned) -> *mut TVMFFIObject {
    opaque_of(object.into_ptr())
}

/// Like [`opaque`], for an object whose reference the caller owns, or adds before the result is
/// released.
pub(crate) fn opaque_of(object: *mut PyObject) -> *mut TVMFFIObject {
    unsafe extern "C" fn release(handle: *mut c_void) {
        // From any thread; after Python has ended, its objects are gone.
        crate::cpython::interpreter::with_lock(|py| {
            // SAFETY: the reference that the opaque object holds, given up once.
            unsafe { py.Py_DecRef(handle.cast()) }
        });
    }
    embedded::opaque::new_python_object(object.cast(), Some(release))
}
