//! Python objects for lists and dicts of the library.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};

use super::identity;
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
        Ok(if identity::is_reading() { identity::container_alive(py, made, object) } else { made })
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
        let held = *pointer_place(py, object);
        TVMFFIAny::pointer((*held.cast::<TVMFFIObject>()).type_index, held)
    })
}

/// The list or dict that a Python object holds.
///
/// # Safety
/// `this` is alive and of one of the classes.
pub(crate) unsafe fn held(py: Py, this: *mut PyObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller.
    unsafe { (*pointer_place(py, this)).cast() }
}
