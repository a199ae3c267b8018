//! The classes of registered types by type, and their Python objects.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_core::abi::{TVMFFIAny, TVMFFIObject, type_index};
use kernpack_core::embedded;
use kernpack_core::reflect::TypeInfo;

use super::edge::Edge;
use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject, constant};
use crate::cpython::freelist::FreeList;
use crate::cpython::heap_type::pointer_place;
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;
use crate::signature::constructor::Constructor;

/// The class of a type. It lives forever.
pub(crate) struct Class {
    /// The type.
    pub(crate) index: i32,
    /// The last part of the type's key.
    pub(crate) name: String,
    /// The constructor of its objects.
    pub(crate) constructor: Constructor,
    /// Fields that may hold Python objects.
    pub(crate) edges: Vec<Edge>,
    /// The class itself.
    pub(crate) object: *mut PyObject,
}

// SAFETY: it is not changed after its creation, and its pointers are only used with the
// interpreter's lock held.
unsafe impl Send for Class {}
// SAFETY: as above.
unsafe impl Sync for Class {}

/// The classes created so far. No Python code runs while it is locked.
static CLASSES: Mutex<Vec<&'static Class>> = Mutex::new(Vec::new());

/// Freed memory of objects of classes that were created for types, except for those that the
/// garbage collector tracks. All blocks have the same size.
pub(super) static FREED: FreeList = FreeList::new();

/// Classes of types with a low index, by the index: used to find the class of a result.
static BY_INDEX: [AtomicPtr<Class>; 1024] = [const { AtomicPtr::new(ptr::null_mut()) }; 1024];
/// Classes by their address, unless they share a slot: used to recognize the class of an argument.
static BY_ADDRESS: [AtomicPtr<Class>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];

fn place(class: *mut PyObject) -> &'static AtomicPtr<Class> {
    // Classes are at least 16 bytes apart, and usually about a kilobyte.
    &BY_ADDRESS[((class.addr() >> 4) ^ (class.addr() >> 12)) % BY_ADDRESS.len()]
}

/// The description of a class that was created for a type.
#[inline]
pub(crate) fn of_class(class: *mut PyObject) -> Option<&'static Class> {
    // SAFETY: stored values live forever.
    let found = unsafe { place(class).load(Ordering::Acquire).as_ref() };
    match found {
        Some(found) if found.object == class => Some(found),
        None => None,
        // Another class has the slot.
        Some(_) => search(|other| other.object == class),
    }
}

/// Returns true if a class was created for a type.
#[inline]
pub(crate) fn is_known(class: *mut PyObject) -> bool {
    of_class(class).is_some()
}

#[cold]
fn search(is_it: impl Fn(&Class) -> bool) -> Option<&'static Class> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().find(|class| is_it(class))
}

/// The object behind a Python object of one of the classes, borrowed from it. The Python object is
/// noted: the caller may pass the object to code that keeps a reference.
///
/// # Safety
/// `object` is alive and of a class derived from the base.
pub(crate) unsafe fn object_of(py: Py, object: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
    // SAFETY: promised by the caller.
    unsafe {
        let word = alive::word_of(py, object);
        let found = alive::object_in(word);
        if alive::is_noted(word) {
            return Ok(found);
        }
        if found.is_null() {
            let text =
                "the object is empty: its constructor was not called; a derived class calls super().__init__(...)";
            return Err(py.raise(py.PyExc_ValueError(), text));
        }
        alive::note(py, object, found)?;
        Ok(found)
    }
}

/// The view of the object that a Python object of one of the classes holds.
///
/// # Safety
/// As for [`object_of`].
#[inline]
pub(crate) unsafe fn view(py: Py, object: *mut PyObject) -> PyResult<TVMFFIAny> {
    let mut view = TVMFFIAny::NONE;
    // SAFETY: promised by the caller.
    unsafe { write_view(py, object, &mut view)? };
    Ok(view)
}

/// Like [`view`], written in place.
///
/// # Safety
/// As for [`object_of`]; `place` is writable.
#[inline]
pub(crate) unsafe fn write_view(py: Py, object: *mut PyObject, place: *mut TVMFFIAny) -> PyResult<()> {
    // SAFETY: promised by the caller; the object is borrowed from the Python object.
    unsafe {
        let object = object_of(py, object)?;
        place.write(TVMFFIAny::pointer((*object).type_index, object.cast()));
        Ok(())
    }
}

/// Creates a Python object of a class that takes over a reference to an object.
///
/// # Safety
/// The class is that of the object's type, or of one that it is derived from; the caller owns the
/// reference.
pub(crate) unsafe fn hold(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; an object of the class has two pointers behind its header,
    // that of its weak references is the second. Of classes that are kept in a list all are made
    // here, or by the interpreter when the constructor of a derived class runs.
    unsafe {
        let this = match of_class(class) {
            Some(known) if known.edges.is_empty() => {
                let this = FREED.take(py, class);
                if py.is_plain()
                    && let Ok(this) = &this
                {
                    // The block may have been in use before.
                    *pointer_place(py, this.as_ptr()).add(1) = ptr::null_mut();
                }
                this
            }
            // All zeros. From here on the garbage collector tracks it, so another thread may find
            // it and create weak references to it.
            _ => Owned::take(py, py.PyType_GenericAlloc(class, 0)),
        };
        let Ok(this) = this else {
            embedded::dec_ref(object);
            return this;
        };
        AtomicPtr::from_ptr(pointer_place(py, this.as_ptr())).store(object.cast(), Ordering::Release);
        alive::note_shared(py, this.as_ptr(), object)?;
        Ok(this)
    }
}

/// The class of a type with a low index, if it was created.
#[inline]
pub(super) fn known(py: Py, index: i32) -> Option<*mut PyObject> {
    if index == type_index::OBJECT {
        return Some(State::get(py).object);
    }
    in_table(index).map(|class| class.object)
}

#[inline]
fn in_table(index: i32) -> Option<&'static Class> {
    let place = BY_INDEX.get(usize::try_from(index).ok()?)?;
    // SAFETY: stored values live forever.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// The class of a type, or of its nearest ancestor that has a class. Does not run Python code.
pub(crate) fn of_index(index: i32) -> Option<&'static Class> {
    let made = |index| in_table(index).or_else(|| find(index));
    made(index).or_else(|| {
        let info = TypeInfo::find(index)?;
        (0..info.depth()).rev().filter_map(|depth| info.ancestor(depth)).find_map(|ancestor| made(ancestor.index()))
    })
}

/// The class of a type, if it was created.
pub(super) fn find(index: i32) -> Option<&'static Class> {
    search(|class| class.index == index)
}

/// Adds the class of a type. Another thread may have added one meanwhile: that class is returned,
/// and this one stays unused.
pub(crate) fn add(class: &'static Class) -> Result<(), &'static Class> {
    let mut all = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(other) = all.iter().copied().find(|other| other.index == class.index) {
        return Err(other);
    }
    all.push(class);
    let address = ptr::from_ref(class).cast_mut();
    if let Some(place) = usize::try_from(class.index).ok().and_then(|index| BY_INDEX.get(index)) {
        place.store(address, Ordering::Release);
    }
    let _ = place(class.object).compare_exchange(ptr::null_mut(), address, Ordering::AcqRel, Ordering::Acquire);
    Ok(())
}

/// Returns true if a type is the other one, or derived from it.
pub(crate) fn is_a(index: i32, other: i32) -> bool {
    index == other || TypeInfo::find(index).is_some_and(|info| info.is_a(other))
}

/// The class of a registered type: the given class itself, or its nearest base that is one.
pub(crate) fn nearest(py: Py, class: *mut PyObject) -> Option<&'static Class> {
    let mut at = class;
    while !at.is_null() && at != State::get(py).object {
        if let Some(found) = of_class(at) {
            return Some(found);
        }
        // SAFETY: a class, and one made at run time, as all are between ours and a derived one.
        at = unsafe { py.PyType_GetSlot(at, constant::TP_BASE) }.cast();
    }
    None
}

/// The type of a class, or of its nearest base that has a type; and its name.
pub(crate) fn registered(py: Py, class: *mut PyObject) -> (i32, String) {
    match nearest(py, class) {
        Some(class) => (class.index, class.name.clone()),
        None => (type_index::OBJECT, "Object".to_owned()),
    }
}
