//! Python objects for the library's objects, and the end of their lives.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::embedded;

use super::member;
use super::table::{FREED, find, hold, known, nearest, of_class};
use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::heap_type::{dealloc, pointer_place};
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;

/// Creates the Python object for an object, which holds another reference to it.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn wrap(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; members live forever.
    unsafe {
        if let Some(alive) = alive::find(py, object)? {
            return Ok(alive);
        }
        let index = (*object).type_index;
        match known(py, index) {
            Some(class) => hold_more(py, class, object),
            None => match member::member(index, object) {
                Some(member) => Ok(Owned::share(py, member)),
                None => hold_more(py, slow_of_type(py, index)?, object),
            },
        }
    }
}

/// Creates the Python object for an object, whose reference it takes over.
///
/// # Safety
/// The reference is the caller's.
#[inline]
pub(crate) unsafe fn wrap_owned(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the class is that of the type.
    unsafe {
        match known(py, (*object).type_index) {
            // The only reference to an object is not that of a Python object.
            Some(class) if embedded::is_unique(object) => hold(py, class, object),
            _ => {
                let wrapped = wrap(py, object);
                embedded::dec_ref(object);
                wrapped
            }
        }
    }
}

/// Creates the Python object of a class that Python derives from that of a new object. For any
/// other class, also one of a derived type, returns the given one.
///
/// # Safety
/// `class` is alive.
pub(crate) unsafe fn as_derived(py: Py, made: Owned, class: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; an object of a known class holds an object of its type.
    unsafe {
        let own = py.type_of(made.as_ptr());
        let is_class = py.PyType_GetFlags(py.type_of(class)) & constant::TYPE_SUBCLASS != 0;
        if class == own || !is_class || of_class(own).is_none() || py.PyType_IsSubtype(class, own) == 0 {
            return Ok(made);
        }
        // The object is not of a type between the two.
        if nearest(py, class).is_none_or(|nearest| nearest.object != own) {
            return Ok(made);
        }
        let object = alive::object_in(alive::word_of(py, made.as_ptr()));
        embedded::inc_ref(object);
        // The new one takes its place.
        drop(made);
        hold(py, class, object)
    }
}

/// Like [`hold`], with another reference to an object.
///
/// # Safety
/// As for [`hold`]; the object is alive.
unsafe fn hold_more(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    unsafe {
        embedded::inc_ref(object);
        hold(py, class, object)
    }
}

/// The class of a type, borrowed; it lives forever.
#[inline]
pub(crate) fn of_type(py: Py, index: i32) -> PyResult<*mut PyObject> {
    match known(py, index) {
        Some(class) => Ok(class),
        None => slow_of_type(py, index),
    }
}

/// The class of a type that is not in the table, or is not created yet.
#[cold]
fn slow_of_type(py: Py, index: i32) -> PyResult<*mut PyObject> {
    match find(index) {
        Some(class) => Ok(class.object),
        None => (State::get(py).higher.class_of_type)(py, index),
    }
}

/// Frees the Python object of an object.
pub(crate) unsafe extern "C" fn release(this: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for an object without references. Weak
    // references go first.
    unsafe {
        let py = Py::held();
        let place = pointer_place(py, this);
        // Without the interpreter's lock another thread may be writing the field of the weak
        // references.
        let word = *place;
        let object = alive::object_in(word);
        if alive::is_noted(word) {
            alive::forget(py, this, object);
        }
        let has_weak = !AtomicPtr::from_ptr(place.add(1)).load(Ordering::Relaxed).is_null();
        if has_weak || !py.is_plain() {
            py.PyObject_ClearWeakRefs(this);
        }
        let class = py.type_of(this);
        let is_kept = of_class(class).is_some_and(|class| class.edges.is_empty()) && FREED.give(py, this, class);
        if !is_kept {
            *place = ptr::null_mut();
            dealloc(this);
        }
        if !object.is_null() {
            embedded::dec_ref(object);
        }
    }
}
