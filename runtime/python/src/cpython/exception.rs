//! Conversion of errors of the ABI to Python exceptions, and back. An exception that passes through
//! Rust code stays the same object: the error carries it.

use core::ffi::c_void;
use core::ptr;
use std::ffi::CString;

use kernpack_core::abi::{TVMFFIErrorCell, TVMFFIObject, TVMFFIOpaqueObjectCell, type_index};
use kernpack_core::{Error, SystemError, embedded};

use super::capi::{Py, PyObject, constant};
use super::object::{Owned, PyResult, Raised};
use super::state::State;

/// Sets the Python exception for an error.
#[cold]
pub(crate) fn raise(py: Py, error: &Error) -> Raised {
    if let Some(exception) = carried(py, error) {
        // SAFETY: an exception, which the error keeps alive for the call; its class lives as long
        // as it does.
        unsafe { py.PyErr_SetObject(py.type_of(exception), exception) };
        return Raised;
    }
    // The provider's frontend has set an exception itself, while it handled a signal.
    // SAFETY: the lock is held.
    if error.kind_bytes() == b"EnvErrorAlreadySet" && unsafe { !py.PyErr_Occurred().is_null() } {
        return Raised;
    }
    let other;
    let kind = kind_of(error);
    let (class, is_usual) = match usual(py, kind.as_bytes()) {
        Some(class) => (class, true),
        None => {
            other = class_of(py, kind);
            match &other {
                Ok(class) => (class.as_ptr(), false),
                Err(_) => return Raised,
            }
        }
    };
    if is_usual && error.cause().is_none() {
        if let Ok(text) = py.new_text(error.message_bytes()) {
            // SAFETY: a class of exceptions and a text.
            unsafe { py.PyErr_SetObject(class, text.as_ptr()) };
        }
        return Raised;
    }
    let built = py.nested(|py| with_cause(py, error, class));
    if let Ok(exception) = built {
        // SAFETY: an exception and its class, which need not be the one that was called.
        unsafe { py.PyErr_SetObject(py.type_of(exception.as_ptr()), exception.as_ptr()) };
    }
    Raised
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

/// Creates the exception for an error, with its causes as `__cause__`.
fn with_cause(py: Py, error: &Error, class: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: a class of exceptions, and exceptions; the function takes the reference to the cause
    // over.
    unsafe {
        let exception = instance(py, error, class)?;
        check_exception(py, &exception, class)?;
        if let Some(cause) = error.cause() {
            let cause = match carried(py, &cause) {
                Some(own) => Owned::share(py, own),
                None => {
                    let class = class_of(py, kind_of(&cause))?;
                    py.nested(|py| with_cause(py, &cause, class.as_ptr()))?
                }
            };
            py.PyException_SetCause(exception.as_ptr(), cause.into_ptr());
        }
        Ok(exception)
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
unsafe fn is_instance(py: Py, object: *mut PyObject) -> bool {
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

/// The class for one of the most common kinds, one of the interpreter's.
fn usual(py: Py, kind: &[u8]) -> Option<*mut PyObject> {
    let class = match kind {
        b"ValueError" => py.PyExc_ValueError(),
        b"TypeError" => py.PyExc_TypeError(),
        b"RuntimeError" => py.PyExc_RuntimeError(),
        b"IndexError" => py.PyExc_IndexError(),
        b"KeyError" => py.PyExc_KeyError(),
        b"OverflowError" => py.PyExc_OverflowError(),
        _ => return None,
    };
    // A library may declare one of the same name.
    let declared = &State::get(py).collected.exceptions;
    let is_declared = !declared.is_empty() && declared.iter().any(|info| info.kind.as_str().as_bytes() == kind);
    (!is_declared).then_some(class)
}

/// The class for a kind of error: the one that the library declares, else Python's own of this
/// name, else a new one derived from RuntimeError.
#[inline(never)]
pub(crate) fn class_of(py: Py, kind: &str) -> PyResult<Owned> {
    if let Some(class) = usual(py, kind.as_bytes()) {
        // SAFETY: one of the interpreter's classes.
        return Ok(unsafe { Owned::share(py, class) });
    }
    let state = State::get(py);
    let name = py.text(kind)?;
    // SAFETY: the state's dict and the name are alive.
    unsafe {
        if let Some(known) = py.dict_item(state.exceptions, name.as_ptr())? {
            return checked(py, known, kind);
        }
    }
    let declared = state.collected.exceptions.iter().find(|info| info.kind.as_str() == kind);
    let (class, is_new) = match (declared, builtin(py, kind)?) {
        (Some(info), _) => {
            // A class that is declared as its own base has no base.
            let base = Some(info.base.as_str()).filter(|base| *base != kind).unwrap_or("RuntimeError");
            let base = py.nested(|py| class_of(py, base))?;
            (new_class(py, kind, &state.module, base.as_ptr())?, true)
        }
        (None, Some(class)) => (class, false),
        (None, None) => (new_class(py, kind, &state.module, py.PyExc_RuntimeError())?, true),
    };
    // SAFETY: all three are alive.
    let known = unsafe { checked(py, py.set_default(state.exceptions, &name, &class)?, kind)? };
    // Another thread may have created one meanwhile, whose exceptions are in use already.
    if is_new && known.as_ptr() == class.as_ptr() {
        publish(py, kind, &state.module, &class)?;
    }
    Ok(known)
}

/// Checks a class from the dict of classes, which Python code may find through the garbage
/// collector and change.
fn checked(py: Py, class: Owned, kind: &str) -> PyResult<Owned> {
    if is_exception(py, &class) {
        return Ok(class);
    }
    Err(py.raise(
        py.PyExc_RuntimeError(),
        &format!("the class of errors of kind {kind} was replaced by an object that is not a class of exceptions"),
    ))
}

/// Returns true if an object is an exception class.
fn is_exception(py: Py, object: &Owned) -> bool {
    // SAFETY: the object is alive; its type is checked before it is used as a class.
    unsafe {
        let is_class = py.PyType_GetFlags(py.type_of(object.as_ptr())) & constant::TYPE_SUBCLASS != 0;
        is_class && py.PyType_IsSubtype(object.as_ptr(), py.PyExc_BaseException()) != 0
    }
}

/// The exception of this name among Python's builtins.
fn builtin(py: Py, kind: &str) -> PyResult<Option<Owned>> {
    let builtins = py.import(c"builtins")?;
    let Ok(kind) = CString::new(kind) else { return Ok(None) };
    // SAFETY: the module is alive.
    let found = unsafe { py.attribute_if_any(builtins.as_ptr(), &kind)? };
    Ok(found.filter(|found| is_exception(py, found)))
}

/// Creates an exception class.
///
/// `base` is an exception class.
#[inline(never)]
fn new_class(py: Py, kind: &str, module: &str, base: *mut PyObject) -> PyResult<Owned> {
    let is_name = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        // SAFETY: one of the interpreter's classes.
        return Ok(unsafe { Owned::share(py, py.PyExc_RuntimeError()) });
    }
    let full = CString::new(format!("{module}.{kind}")).map_err(|_| py.raise(py.PyExc_RuntimeError(), kind))?;
    // SAFETY: a C string with a dot, and a class of exceptions.
    unsafe { Owned::take(py, py.PyErr_NewException(full.as_ptr(), base, ptr::null_mut())) }
}

/// Makes a new exception class an attribute of the module, so that its exceptions can be pickled.
fn publish(py: Py, kind: &str, module: &str, class: &Owned) -> PyResult<()> {
    let name = py.text(module)?;
    let attribute = py.text(kind)?;
    // SAFETY: all objects are alive.
    unsafe {
        let Some(found) = py.imported(name.as_ptr())? else { return Ok(()) };
        match py.PyObject_SetAttr(found.as_ptr(), attribute.as_ptr(), class.as_ptr()) {
            0 => Ok(()),
            _ => Err(Raised),
        }
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
    let Some(exception) = take_exception(py) else {
        return Error::internal_error("Python reported an exception but raised none");
    };
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
