//! One Python object for each object of the library, while a pickle is being written.
//!
//! Python objects are created anew each time that the interpreter reads a part of an object, but a
//! pickle recognizes shared parts by them, and keeps the ones that it has seen. So a read for a
//! pickle returns the Python object that is alive, if there is one. An object with a single other
//! reference is reached on one path, and need not be recorded.

use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::embedded;

use super::table::{self, object_of};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult, Raised};

/// The number of running reads for pickles, on any thread, and the number of those that read parts
/// of an object with several Python objects or owners.
static READS: AtomicUsize = AtomicUsize::new(0);
static READS_OF_SHARED: AtomicUsize = AtomicUsize::new(0);

/// A scope in which reads return existing Python objects of the library instead of new ones.
pub(crate) struct Reading {
    of_shared: bool,
}

impl Reading {
    /// # Safety
    /// `object` is alive and has a Python object.
    pub(crate) unsafe fn begin(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        let of_shared = unsafe { embedded::strong_count(object) > 1 };
        READS.fetch_add(1, Ordering::Relaxed);
        READS_OF_SHARED.fetch_add(of_shared.into(), Ordering::Relaxed);
        Self { of_shared }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READS.fetch_sub(1, Ordering::Relaxed);
        READS_OF_SHARED.fetch_sub(self.of_shared.into(), Ordering::Relaxed);
    }
}

/// Returns true if a read for a pickle is running. It may be on another thread, which is harmless:
/// it gets a Python object that is alive.
#[inline]
pub(crate) fn is_reading() -> bool {
    READS.load(Ordering::Relaxed) != 0
}

/// Returns true if an object with a new Python object may be reachable by another path than the one
/// by which it was read.
///
/// # Safety
/// `object` is alive.
unsafe fn may_come_again(object: *mut TVMFFIObject) -> bool {
    // SAFETY: promised by the caller.
    READS_OF_SHARED.load(Ordering::Relaxed) != 0 || unsafe { embedded::strong_count(object) > 2 }
}

/// A Python object of a class, and a weak reference to it, which the table owns.
struct Noted {
    this: usize,
    reference: usize,
}

/// Python objects by the address of the object that they hold. A freed one is removed from the
/// table, unless the garbage collector has cleared its weak references.
#[derive(Default)]
struct Objects {
    noted: HashMap<usize, Noted>,
    /// The number of entries at which those of dead objects are removed.
    limit: usize,
}

static OBJECTS: Mutex<Option<Objects>> = Mutex::new(None);

/// The minimum number of entries for a cleanup.
const FEWEST: usize = 256;

/// Locks the table. Meanwhile no Python code runs, and no object is freed.
fn objects() -> MutexGuard<'static, Option<Objects>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Like [`table::hold`], but returns the Python object that is alive for the object while a pickle
/// is being read.
///
/// # Safety
/// As for [`table::hold`].
#[cold]
pub(crate) unsafe fn hold(py: Py, class: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller: the reference is given up if there is a Python object, which
    // has its own.
    unsafe {
        if !may_come_again(object) {
            return table::hold(py, class, object);
        }
        match object_alive(py, object) {
            Ok(None) => {}
            other => {
                embedded::dec_ref(object);
                return other.and_then(|alive| alive.ok_or(Raised));
            }
        }
        let made = table::hold(py, class, object)?;
        note(py, made.as_ptr(), object)?;
        Ok(made)
    }
}

/// Records the Python object that is pickled, if there are other references to the object that it
/// holds. It replaces one that was pickled before: the pickle refers to this one.
///
/// # Safety
/// `this` is alive and holds the object.
pub(crate) unsafe fn pickled(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<()> {
    // SAFETY: promised by the caller.
    unsafe {
        // One of a class that was derived in Python does not represent the object: its additional
        // attributes cannot be reached from it.
        if embedded::strong_count(object) == 1 || !table::is_known(py.type_of(this)) {
            return Ok(());
        }
        let is_noted = match object_alive(py, object)? {
            Some(alive) => alive.as_ptr() == this,
            None => false,
        };
        if is_noted { Ok(()) } else { note(py, this, object) }
    }
}

/// The Python object in the table for an object, if it is alive.
///
/// # Safety
/// `object` is alive.
unsafe fn object_alive(py: Py, object: *mut TVMFFIObject) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller; the table owns the reference, and nothing takes it out while
    // it is locked.
    unsafe {
        let reference = match objects().as_ref().and_then(|objects| objects.noted.get(&object.addr())) {
            Some(noted) => Owned::share(py, ptr::with_exposed_provenance_mut(noted.reference)),
            None => return Ok(None),
        };
        let alive = py.call(reference.as_ptr(), [])?;
        // The garbage collector may have cleared it: another object can have the address by now.
        let is_it = alive.as_ptr() != py.none() && object_of(py, alive.as_ptr()).is_ok_and(|held| held == object);
        if !is_it {
            py.PyErr_Clear();
        }
        Ok(is_it.then_some(alive))
    }
}

/// # Safety
/// `this` is alive, of a class that was made for a type, and holds the object.
unsafe fn note(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<()> {
    // SAFETY: promised by the caller; the class has weak references. References that leave the
    // table are given up when it is not locked any more.
    unsafe {
        let reference = Owned::take(py, py.PyWeakref_NewRef(this, ptr::null_mut()))?;
        let noted = Noted { this: this.addr(), reference: reference.into_ptr().expose_provenance() };
        let (before, is_full) = {
            let mut objects = objects();
            let objects = objects.get_or_insert_default();
            let before = objects.noted.insert(object.addr(), noted);
            (before, objects.noted.len() > objects.limit.max(FEWEST))
        };
        if let Some(before) = before {
            give_up(py, before);
        }
        if is_full {
            look_through(py);
        }
        Ok(())
    }
}

/// # Safety
/// The note was taken out of the table.
unsafe fn give_up(py: Py, noted: Noted) {
    // SAFETY: promised by the caller: the table's reference is given up once.
    unsafe { py.Py_DecRef(ptr::with_exposed_provenance_mut(noted.reference)) };
}

/// Removes the entries whose Python objects are not alive.
#[cold]
fn look_through(py: Py) {
    let all = objects().as_mut().map(|objects| core::mem::take(&mut objects.noted)).unwrap_or_default();
    let (mut alive, mut other) = (Vec::new(), Vec::new());
    for (object, noted) in all {
        // SAFETY: the reference is the note's, which is not in the table.
        let found = unsafe { py.call(ptr::with_exposed_provenance_mut(noted.reference), []) };
        let is_alive = match found {
            Ok(found) => found.as_ptr() != py.none(),
            Err(Raised) => {
                // SAFETY: the lock is held.
                unsafe { py.PyErr_Clear() };
                true
            }
        };
        if is_alive { alive.push((object, noted)) } else { other.push(noted) }
    }
    {
        let mut objects = objects();
        let objects = objects.get_or_insert_default();
        objects.limit = 2 * alive.len();
        for (object, noted) in alive {
            // Code that ran meanwhile may have recorded another one.
            match objects.noted.entry(object) {
                Entry::Occupied(_) => other.push(noted),
                Entry::Vacant(place) => _ = place.insert(noted),
            }
        }
    }
    // SAFETY: these are not in the table.
    other.into_iter().for_each(|noted| unsafe { give_up(py, noted) });
}

/// Called before the Python object of an object is freed that has weak references, one of which may
/// be the table's.
///
/// # Safety
/// `this` has no references, and is of a class that is derived from the base.
pub(crate) unsafe fn forget_object(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) {
    let noted = {
        let mut objects = objects();
        let Some(objects) = objects.as_mut() else { return };
        match objects.noted.get(&object.addr()) {
            Some(noted) if noted.this == this.addr() => objects.noted.remove(&object.addr()),
            _ => None,
        }
    };
    if let Some(noted) = noted {
        // SAFETY: it was taken out of the table.
        unsafe { give_up(py, noted) };
    }
}

/// Python objects of lists and dicts, by their addresses. They do not support weak references, and
/// are removed from the table when they are freed.
static CONTAINERS: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);
/// The number of entries.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The Python object of a list or dict that is alive; the given one, if there is no other. A pickle
/// is being read.
///
/// # Safety
/// `made` is a new Python object of the list or dict.
#[cold]
pub(crate) unsafe fn container_alive(py: Py, made: Owned, container: *mut TVMFFIObject) -> Owned {
    // SAFETY: promised by the caller.
    if !unsafe { may_come_again(container) } {
        return made;
    }
    let known = containers(py, |containers| {
        *containers.entry(container.addr()).or_insert_with(|| made.as_ptr().expose_provenance())
    });
    match known {
        // SAFETY: with the interpreter's lock, objects in the table are alive: they are removed
        // before they are freed. The new one, whose destruction accesses the table, is released
        // when the table is not locked.
        Some(known) => unsafe { Owned::share(py, ptr::with_exposed_provenance_mut(known)) },
        None => made,
    }
}

/// Records the Python object that is pickled, if there are other references to the list or dict.
///
/// # Safety
/// `this` is alive, and the Python object of the list or dict.
pub(crate) unsafe fn pickled_container(py: Py, this: *mut PyObject, container: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    if unsafe { embedded::strong_count(container) } > 1 {
        containers(py, |containers| containers.insert(container.addr(), this.expose_provenance()));
    }
}

/// Accesses the table, and updates the number of its entries. `None` without the interpreter's
/// lock: an object in the table could be in the process of being freed, so there is no table.
fn containers<R>(py: Py, run: impl FnOnce(&mut HashMap<usize, usize>) -> R) -> Option<R> {
    if !py.is_plain() {
        return None;
    }
    let mut table = CONTAINERS.lock().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_default();
    let done = run(table);
    COUNT.store(table.len(), Ordering::Relaxed);
    Some(done)
}

/// Called before the Python object of a list or dict is freed.
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
        COUNT.store(table.len(), Ordering::Relaxed);
    }
}
