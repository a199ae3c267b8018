//! Python objects for lists and dicts of the library.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};

use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::heap_type::{holder, pointer_place};
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;

/// The class of lists, and that of dicts; NULL before the first one.
static CLASSES: [AtomicPtr<PyObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Creates the Python object for a list or dict, which holds another reference to it.
///
/// # Safety
/// `object` is a live list or dict.
pub(crate) unsafe fn new(py: Py, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the classes hold objects of this kind.
    unsafe {
        if has_table(py)
            && let Some(alive) = alive::find(py, object)?
        {
            return Ok(alive);
        }
        let is_dict = (*object).type_index == type_index::DICT;
        let place = &CLASSES[usize::from(is_dict)];
        let mut class = place.load(Ordering::Acquire);
        if class.is_null() {
            let made = (State::get(py).higher.class_of_container)(py, is_dict)?.into_ptr();
            class = match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                // Another thread was first. This class stays unused.
                Err(first) => first,
            };
        }
        let made = holder(py, class, object)?;
        if has_table(py) {
            alive::note_shared(py, made.as_ptr(), object)?;
        }
        Ok(made)
    }
}

/// Returns true if the table has lists and dicts: only with the interpreter's lock, because they do
/// not support weak references.
fn has_table(py: Py) -> bool {
    py.is_plain()
}

/// Called before the Python object of a list or dict is freed.
///
/// # Safety
/// `this` has no references, and is of one of the classes.
pub(crate) unsafe fn forget(py: Py, this: *mut PyObject) {
    // SAFETY: promised by the caller.
    unsafe {
        let word = alive::word_of(py, this);
        if alive::is_noted(word) {
            let object = alive::object_in(word);
            alive::forget(py, this, object);
            *pointer_place(py, this) = object.cast();
        }
    }
}

/// The list or dict that a Python object holds, if it is one of these.
///
/// # Safety
/// `object` is alive and of this class.
#[inline]
pub(crate) unsafe fn object_of(py: Py, object: *mut PyObject, class: *mut PyObject) -> Option<TVMFFIAny> {
    let is_one = CLASSES.iter().any(|known| known.load(Ordering::Acquire) == class);
    // SAFETY: promised by the caller; an object of the classes holds a list or dict.
    is_one.then(|| unsafe {
        let held = held(py, object);
        TVMFFIAny::pointer((*held).type_index, held.cast())
    })
}

/// The list or dict that a Python object holds.
///
/// # Safety
/// `this` is alive and of one of the classes.
pub(crate) unsafe fn held(py: Py, this: *mut PyObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller. The caller may pass the list or dict to code that keeps it.
    unsafe {
        let word = alive::word_of(py, this);
        let object = alive::object_in(word);
        if has_table(py) && !alive::is_noted(word) {
            // It is never refused.
            let _ = alive::note(py, this, object);
        }
        object
    }
}
