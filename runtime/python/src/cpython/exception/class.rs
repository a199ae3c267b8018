//! The classes of exceptions, by kind of error.

use core::ptr;
use std::ffi::CString;

use super::super::capi::{Py, PyObject, constant};
use super::super::object::{Owned, PyResult, Raised};
use super::super::state::State;

/// The class for one of the most common kinds, one of the interpreter's.
pub(super) fn usual(py: Py, kind: &[u8]) -> Option<*mut PyObject> {
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
            (new_class(py, kind, state.module_of_classes(), base.as_ptr())?, true)
        }
        (None, Some(class)) => (class, false),
        // The package has not imported it.
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
