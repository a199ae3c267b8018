//! One Python object for each object of the library, as long as a pickle is made.
//!
//! Python objects are made anew each time that the interpreter asks for a part of an object, but a pickle knows by them what is shared, and
//! keeps those that it has seen. So what is pickled gives the ones that are alive.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use kernpack_core::abi::TVMFFIObject;

use crate::capi::{Py, PyObject};
use crate::class::{self, object_of};
use crate::object::{Owned, PyResult, Raised};
use crate::shared_container;

/// A `weakref.WeakValueDictionary` with objects of classes, by address; NULL before the first pickle.
static OBJECTS: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Python objects of lists and dicts, by the address of those. They have no weak references, and leave the table when they are freed.
static CONTAINERS: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);
/// Number of these.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A list or dict of Python, new and with no other owner, in which Python objects of the library are those that are alive already.
///
/// # Safety
/// The lists and dicts in the value are only the caller's.
pub(crate) unsafe fn of_those_alive(py: Py, value: Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let (object, class) = (value.as_ptr(), py.type_of(value.as_ptr()));
        replace_in(py, object, class, &mut HashSet::new())?;
    }
    Ok(value)
}

/// # Safety
/// As for [`of_those_alive`]; the object is a list or dict of this class.
unsafe fn replace_in(py: Py, object: *mut PyObject, class: *mut PyObject, seen: &mut HashSet<usize>) -> PyResult<()> {
    // SAFETY: promised by the caller.
    unsafe {
        if class == py.PyList_Type() {
            let mut index = 0;
            while let Some(item) = py.list_item(object, index)? {
                let old = item.as_ptr();
                let item = replaced(py, item, seen)?;
                if item.as_ptr() != old && py.PyList_SetItem(object, index, item.into_ptr()) != 0 {
                    return Err(Raised);
                }
                index += 1;
            }
            return Ok(());
        }
        for [key, item] in py.entries(object)? {
            let old = item.as_ptr();
            let item = replaced(py, item, seen)?;
            if item.as_ptr() != old && py.PyDict_SetItem(object, key.as_ptr(), item.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        Ok(())
    }
}

/// # Safety
/// As for [`of_those_alive`]; `seen` has the lists and dicts that were looked through, which the value keeps.
unsafe fn replaced(py: Py, value: Owned, seen: &mut HashSet<usize>) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        let (object, class) = (value.as_ptr(), py.type_of(value.as_ptr()));
        if class == py.PyList_Type() || class == py.PyDict_Type() {
            if seen.insert(object.addr()) {
                replace_in(py, object, class, seen)?;
            }
        } else if class::is_known(class) {
            return object_alive(py, value);
        } else if let Some(held) = shared_container::object_of(py, object, class) {
            return Ok(container_alive(py, value, held.payload.v_obj));
        }
        Ok(value)
    }
}

/// The Python object that is alive for the same object; the given one, where there is no other.
///
/// # Safety
/// The value is an object of one of the classes.
pub(crate) unsafe fn object_alive(py: Py, value: Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the table lives forever.
    unsafe {
        let key = Owned::take(py, py.PyLong_FromLongLong(object_of(py, value.as_ptr())?.expose_provenance() as i64))?;
        let mut table = OBJECTS.load(Ordering::Acquire);
        if table.is_null() {
            let module = py.import(c"weakref")?;
            let class = py.attribute(module.as_ptr(), c"WeakValueDictionary")?;
            let made = py.call(class.as_ptr(), [])?.into_ptr();
            table = match OBJECTS.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(first) => first,
            };
        }
        let set_default = py.attribute(table, c"setdefault")?;
        py.call(set_default.as_ptr(), [key, value])
    }
}

/// The Python object that is alive for the same list or dict; the given one, where there is no other.
///
/// # Safety
/// The value is the Python object of the list or dict.
pub(crate) unsafe fn container_alive(py: Py, value: Owned, container: *mut TVMFFIObject) -> Owned {
    if !py.is_plain() {
        // Without the interpreter's lock, one that is in the table may be on its way out.
        return value;
    }
    let mut table = CONTAINERS.lock().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_default();
    let known = *table.entry(container.addr()).or_insert_with(|| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        value.as_ptr().expose_provenance()
    });
    // SAFETY: with the interpreter's lock, what is in the table is alive: it leaves it before it is freed.
    unsafe { Owned::share(py, ptr::with_exposed_provenance_mut(known)) }
}

/// Before the Python object of a list or dict is freed.
#[inline]
pub(crate) fn forget(this: *mut PyObject, container: *mut TVMFFIObject) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        forget_one(this, container);
    }
}

#[cold]
fn forget_one(this: *mut PyObject, container: *mut TVMFFIObject) {
    let mut table = CONTAINERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = table.as_mut()
        && table.get(&container.addr()) == Some(&this.addr())
    {
        table.remove(&container.addr());
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
