//! The Python object of each object of the library: the same one as long as it lives.
//!
//! A table has it by the object's address. A Python object is noted there before code of Rust can
//! get another reference to its object: when it is created for an object that has others, or when
//! it is first passed to a function. So results that are created, used from Python and freed do not
//! pay for the table. The lowest bit of the word that refers to the object says that this was done.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::hash::{BuildHasher, Hasher};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::embedded;

use super::capi::{Py, PyObject};
use super::heap_type::pointer_place;
use super::object::{Owned, PyResult, Raised};

/// The bit of a Python object's word that is set when the object was noted.
const NOTED: usize = 1;

/// The object that the word of a Python object refers to; NULL before its constructor has run.
#[inline]
pub(crate) fn object_in(word: *mut c_void) -> *mut TVMFFIObject {
    word.map_addr(|address| address & !NOTED).cast()
}

/// Returns true if a Python object with this word was noted.
#[inline]
pub(crate) fn is_noted(word: *mut c_void) -> bool {
    word.addr() & NOTED != 0
}

/// The word of a Python object.
///
/// # Safety
/// `this` is alive, and of a class for a registered type.
#[inline]
pub(crate) unsafe fn word_of(py: Py, this: *mut PyObject) -> *mut c_void {
    // SAFETY: promised by the caller. A constructor may write the place at the same time, once.
    unsafe { AtomicPtr::from_ptr(pointer_place(py, this)).load(Ordering::Acquire) }
}

/// Hashes addresses of objects, which are multiples of 8.
#[derive(Clone, Copy)]
struct Addresses(u64);

impl BuildHasher for Addresses {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Addresses {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

type ByAddress<T> = HashMap<usize, T, Addresses>;

/// The addresses of Python objects by those of their objects, guarded by the interpreter's lock. An
/// entry is removed when its Python object is freed.
struct Table(UnsafeCell<ByAddress<usize>>);

// SAFETY: all uses hold the interpreter's lock, of an interpreter that has one.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(HashMap::with_hasher(Addresses(0))));

/// Uses the table. No other code of Python runs meanwhile.
#[inline]
fn with_table<R>(py: Py, run: impl FnOnce(&mut ByAddress<usize>) -> R) -> R {
    debug_assert!(py.is_plain());
    // SAFETY: the lock is held, and `run` does not use the table otherwise.
    run(unsafe { &mut *TABLE.0.get() })
}

/// The Python object that is alive for an object, with a new reference.
///
/// # Safety
/// `object` is alive.
#[inline]
pub(crate) unsafe fn find(py: Py, object: *mut TVMFFIObject) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller. An entry's Python object is removed before its memory is
    // freed. One without references is being freed, and Python code runs meanwhile; one that refers
    // to no object was emptied by the garbage collector.
    unsafe {
        if !py.is_plain() {
            return weak::find(py, object);
        }
        let Some(this) = with_table(py, |table| table.get(&object.addr()).copied()) else { return Ok(None) };
        let this = ptr::with_exposed_provenance_mut(this);
        let is_alive = py.may_be_shared(this, 0) && object_in(word_of(py, this)) == object;
        Ok(is_alive.then(|| Owned::share(py, this)))
    }
}

/// Notes the Python object of an object, unless the object has another one that is alive. Does
/// nothing if it was noted before.
///
/// # Safety
/// `this` is alive, of a class for a registered type, and holds the object.
#[cold]
#[inline(never)]
pub(crate) unsafe fn note(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<()> {
    // SAFETY: promised by the caller. The word is changed only from the object to the same with the
    // bit: the garbage collector may have emptied it, and another thread may have noted it.
    unsafe {
        if is_noted(word_of(py, this)) {
            return Ok(());
        }
        if find(py, object)?.is_none() {
            match py.is_plain() {
                true => _ = with_table(py, |table| table.insert(object.addr(), this.expose_provenance())),
                false => weak::note(py, this, object)?,
            }
        }
        let place = AtomicPtr::from_ptr(pointer_place(py, this));
        let noted = object.map_addr(|address| address | NOTED);
        let _ = place.compare_exchange(object.cast(), noted.cast(), Ordering::AcqRel, Ordering::Acquire);
        Ok(())
    }
}

/// Notes the Python object of an object, if there is another reference to the object.
///
/// # Safety
/// As for [`note`].
#[inline]
pub(crate) unsafe fn note_shared(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<()> {
    // SAFETY: promised by the caller.
    unsafe { if embedded::is_unique(object) { Ok(()) } else { note(py, this, object) } }
}

/// Called before a Python object that was noted is freed, or loses its object.
///
/// # Safety
/// `this` held the object until now.
#[cold]
#[inline(never)]
pub(crate) unsafe fn forget(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) {
    if !py.is_plain() {
        // SAFETY: promised by the caller.
        return unsafe { weak::forget(py, this, object) };
    }
    with_table(py, |table| {
        if let Entry::Occupied(entry) = table.entry(object.addr())
            && *entry.get() == this.addr()
        {
            entry.remove();
        }
        // A table that was large gives its memory back.
        if table.is_empty() && table.capacity() > LARGE {
            table.shrink_to(0);
        }
    });
}

/// The capacity from which an empty table is shrunk.
const LARGE: usize = 1 << 12;

/// The table without the interpreter's lock: another thread may be freeing an object that is found,
/// so there are weak references in it.
mod weak {
    use super::{
        Addresses, ByAddress, Entry, HashMap, Mutex, MutexGuard, Owned, PoisonError, Py, PyObject, PyResult, Raised,
        TVMFFIObject, object_in, ptr, word_of,
    };

    /// A Python object, and a weak reference to it, which the table owns.
    struct Noted {
        this: usize,
        reference: usize,
    }

    /// Python objects by the address of the object that they hold. A freed one is removed from the
    /// table, unless the garbage collector has cleared its weak references.
    struct Objects {
        noted: ByAddress<Noted>,
        /// The number of entries at which those of dead objects are removed.
        limit: usize,
    }

    /// Tables for parts of the addresses, so that threads seldom wait for one another.
    static TABLES: [Mutex<Objects>; 16] =
        [const { Mutex::new(Objects { noted: HashMap::with_hasher(Addresses(0)), limit: FEWEST }) }; 16];

    /// The minimum number of entries for a cleanup.
    const FEWEST: usize = 256;

    fn table_of(object: *mut TVMFFIObject) -> &'static Mutex<Objects> {
        &TABLES[(object.addr() >> 6) % TABLES.len()]
    }

    /// Locks a table. Meanwhile no Python code runs, and no object is freed.
    fn locked(table: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// `object` is alive.
    pub(super) unsafe fn find(py: Py, object: *mut TVMFFIObject) -> PyResult<Option<Owned>> {
        // SAFETY: promised by the caller; the table owns the reference, and nothing takes it out
        // while it is locked.
        unsafe {
            let reference = match locked(table_of(object)).noted.get(&object.addr()) {
                Some(noted) => Owned::share(py, ptr::with_exposed_provenance_mut(noted.reference)),
                None => return Ok(None),
            };
            let alive = py.call(reference.as_ptr(), [])?;
            // The garbage collector may have cleared it: another object can have the address by
            // now.
            let is_it = alive.as_ptr() != py.none() && object_in(word_of(py, alive.as_ptr())) == object;
            Ok(is_it.then_some(alive))
        }
    }

    /// # Safety
    /// `this` is alive, of a class for a registered type, and holds the object.
    pub(super) unsafe fn note(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) -> PyResult<()> {
        // SAFETY: promised by the caller; the class has weak references. References that leave the
        // table are given up when it is not locked any more.
        unsafe {
            let reference = Owned::take(py, py.PyWeakref_NewRef(this, ptr::null_mut()))?;
            let noted = Noted { this: this.addr(), reference: reference.into_ptr().expose_provenance() };
            let (before, is_full) = {
                let mut objects = locked(table_of(object));
                let before = objects.noted.insert(object.addr(), noted);
                (before, objects.noted.len() > objects.limit)
            };
            if let Some(before) = before {
                give_up(py, before_or_own(py, object, before)?);
            }
            if is_full {
                look_through(py, table_of(object));
            }
            Ok(())
        }
    }

    /// Decides between a new note and the one that it has replaced: if another thread was first,
    /// its Python object stays in the table. Returns the other note.
    ///
    /// # Safety
    /// `object` is alive, and `before` was taken out of the table.
    #[cold]
    unsafe fn before_or_own(py: Py, object: *mut TVMFFIObject, before: Noted) -> PyResult<Noted> {
        // SAFETY: promised by the caller: the reference is the note's.
        unsafe {
            let found = py.call(ptr::with_exposed_provenance_mut(before.reference), [])?;
            if found.as_ptr() == py.none() || object_in(word_of(py, found.as_ptr())) != object {
                return Ok(before);
            }
            let own = locked(table_of(object)).noted.insert(object.addr(), before);
            own.ok_or_else(|| py.raise(py.PyExc_RuntimeError(), "a Python object was freed while it was used"))
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
    fn look_through(py: Py, table: &Mutex<Objects>) {
        let all = core::mem::replace(&mut locked(table).noted, HashMap::with_hasher(Addresses(0)));
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
            let mut objects = locked(table);
            objects.limit = FEWEST.max(2 * alive.len());
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

    /// # Safety
    /// `this` held the object until now.
    pub(super) unsafe fn forget(py: Py, this: *mut PyObject, object: *mut TVMFFIObject) {
        let noted = {
            let mut objects = locked(table_of(object));
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
}
