//! NumPy's memory, held while Rust code uses it. A reference to an array, or a buffer of it, does not hold its memory: `resize` and
//! `__setstate__` replace it. They free only what the array owns, so an array in use is one that does not own its memory, for as long.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::capi::{Py, PyObject};
use crate::lend::ArrayFields;
use crate::object::PyResult;

/// The flag of NumPy that says that an array frees its memory.
const OWNS_DATA: c_int = 0x0004;
/// Views of views that are followed.
const DEEPEST: usize = 64;

/// NumPy's class of arrays, once NumPy was seen; a reference to it is kept.
static NDARRAY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The class of NumPy's arrays, if NumPy is imported, in a version whose arrays lie in memory as is known here; else NULL.
#[inline]
pub(crate) fn ndarray(py: Py) -> PyResult<*mut PyObject> {
    let known = NDARRAY.load(Ordering::Acquire);
    if known.is_null() { find_ndarray(py) } else { Ok(known) }
}

#[cold]
fn find_ndarray(py: Py) -> PyResult<*mut PyObject> {
    // SAFETY: the objects are alive while they are used.
    unsafe {
        let numpy = py.text("numpy")?;
        let Some(numpy) = py.imported(numpy.as_ptr())? else { return Ok(ptr::null_mut()) };
        let Some(ndarray) = py.attribute_if_any(numpy.as_ptr(), c"ndarray")? else { return Ok(ptr::null_mut()) };
        let Some(version) = py.attribute_if_any(numpy.as_ptr(), c"__version__")? else { return Ok(ptr::null_mut()) };
        let version = py.str_of(version.as_ptr());
        let is_known_version = version.starts_with("1.") || version.starts_with("2.");
        // Code of Python may put another class there. It cannot change the names of one that it did not make.
        if !is_known_version || !py.is_fixed_class(ndarray.as_ptr()) {
            return Ok(ptr::null_mut());
        }
        for (attribute, expected) in [(c"__name__", "ndarray"), (c"__module__", "numpy")] {
            let found = py.attribute(ndarray.as_ptr(), attribute)?;
            if py.str_of(found.as_ptr()) != expected {
                return Ok(ptr::null_mut());
            }
        }
        let class = ndarray.into_ptr();
        NDARRAY.store(class, Ordering::Release);
        Ok(class)
    }
}

/// The fields of an array.
///
/// # Safety
/// `array` is alive, and its class is [`ndarray`] or derived from it.
pub(crate) unsafe fn fields(py: Py, array: *mut PyObject) -> *mut ArrayFields {
    // SAFETY: promised by the caller: they follow the header.
    unsafe { array.byte_add(py.header()).cast() }
}

/// # Safety
/// `array` is alive, and its class is [`ndarray`] or derived from it; the result is not used longer.
unsafe fn flags<'a>(py: Py, array: *mut PyObject) -> &'a AtomicI32 {
    // SAFETY: promised by the caller.
    unsafe { AtomicI32::from_ptr(&raw mut (*fields(py, array)).flags) }
}

/// The memory of an array, which is not freed as long as this lives.
pub(crate) struct Held {
    /// The array that owns the memory, or what else it comes from.
    owner: *mut PyObject,
    /// The memory in [`TABLE`]; NULL if the owner is not an array that owns memory.
    memory: *mut u8,
    /// Set if there is a reference to the owner: it is not the array itself.
    is_counted: bool,
}

impl Held {
    /// Holds the memory of an array.
    ///
    /// # Safety
    /// `array` is alive until the memory is released, and its class is [`ndarray`], not NULL, or derived from it.
    #[inline]
    pub(crate) unsafe fn new(py: Py, array: *mut PyObject) -> Self {
        // SAFETY: promised by the caller. No code of Python runs.
        unsafe {
            match (*fields(py, array)).base.is_null() {
                true => Self { owner: array, memory: hold(py, array), is_counted: false },
                false => Self::of_view(py, array),
            }
        }
    }

    /// # Safety
    /// As for [`Held::new`].
    #[inline(never)]
    unsafe fn of_view(py: Py, array: *mut PyObject) -> Self {
        let class = NDARRAY.load(Ordering::Acquire);
        let mut owner = array;
        // SAFETY: promised by the caller; the base of an array, which it keeps, is followed if it is an array itself. No code of Python runs.
        unsafe {
            let mut is_array = true;
            for _ in 0..DEEPEST {
                let base = (*fields(py, owner)).base;
                if base.is_null() {
                    break;
                }
                let of = py.type_of(base);
                is_array = of == class || py.PyType_IsSubtype(of, class) != 0;
                owner = base;
                if !is_array {
                    break;
                }
            }
            py.Py_IncRef(owner);
            let memory = if is_array { hold(py, owner) } else { ptr::null_mut() };
            Self { owner, memory, is_counted: true }
        }
    }

    /// Lets go of the memory. An array that has got other memory meanwhile does not get this one back: it is lost.
    #[inline]
    pub(crate) fn release(self, py: Py) {
        // SAFETY: the owner is alive: the array that was held is, or it has a reference, which is given up once.
        unsafe {
            if !self.memory.is_null() {
                with_table(py, |table| {
                    if table.remove(self.memory) && (*fields(py, self.owner)).data.cast() == self.memory {
                        let flags = flags(py, self.owner);
                        flags.store(flags.load(Ordering::Relaxed) | OWNS_DATA, Ordering::Relaxed);
                    }
                });
            }
            if self.is_counted {
                py.Py_DecRef(self.owner);
            }
        }
    }
}

/// Holds the memory that an array owns, and gives its address; NULL if it owns none.
///
/// # Safety
/// As for [`flags`].
#[inline]
unsafe fn hold(py: Py, owner: *mut PyObject) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let memory = (*fields(py, owner)).data.cast::<u8>();
        with_table(py, |table| {
            let flags = flags(py, owner);
            let now = flags.load(Ordering::Relaxed);
            if now & OWNS_DATA != 0 {
                // The interpreter's lock, or that of the table, is held. NumPy has no other.
                flags.store(now & !OWNS_DATA, Ordering::Relaxed);
                table.insert(memory);
                return memory;
            }
            // It is no owner, but for others that hold its memory.
            if table.add(memory) { memory } else { ptr::null_mut() }
        })
    }
}

/// The number of holders of memory.
struct Table {
    /// Those of the memory that has a place, which its address says.
    places: [(*mut u8, usize); PLACES],
    /// Others, whose place was taken.
    more: Option<HashMap<*mut u8, usize>>,
}

const PLACES: usize = 256;

impl Table {
    fn place(&mut self, memory: *mut u8) -> &mut (*mut u8, usize) {
        // Memory of small arrays lies some tens of bytes apart, that of large ones pages.
        &mut self.places[((memory.addr() >> 4) ^ (memory.addr() >> 12)) % PLACES]
    }

    /// Counts the first holder.
    #[inline]
    fn insert(&mut self, memory: *mut u8) {
        let place = self.place(memory);
        if place.1 == 0 {
            *place = (memory, 1);
        } else {
            self.insert_more(memory);
        }
    }

    #[cold]
    fn insert_more(&mut self, memory: *mut u8) {
        *self.more.get_or_insert_default().entry(memory).or_insert(0) += 1;
    }

    /// Counts a further holder; `false`: there is none yet.
    fn add(&mut self, memory: *mut u8) -> bool {
        let place = self.place(memory);
        if place.1 > 0 && place.0 == memory {
            place.1 += 1;
            return true;
        }
        let count = self.more.as_mut().and_then(|more| more.get_mut(&memory));
        count.map(|count| *count += 1).is_some()
    }

    /// Counts a holder less; `true`: it was the last one.
    #[inline]
    fn remove(&mut self, memory: *mut u8) -> bool {
        let place = self.place(memory);
        if place.1 > 0 && place.0 == memory {
            place.1 -= 1;
            return place.1 == 0;
        }
        self.remove_more(memory)
    }

    #[cold]
    fn remove_more(&mut self, memory: *mut u8) -> bool {
        let Some(more) = &mut self.more else { return false };
        let Some(count) = more.get_mut(&memory) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            more.remove(&memory);
        }
        is_last
    }
}

struct Locked {
    table: UnsafeCell<Table>,
    /// Taken where there is no interpreter's lock.
    lock: Mutex<()>,
}

// SAFETY: all uses hold one of the two locks.
unsafe impl Sync for Locked {}

static TABLE: Locked = Locked {
    table: UnsafeCell::new(Table { places: [(ptr::null_mut(), 0); PLACES], more: None }),
    lock: Mutex::new(()),
};

/// Runs code that neither runs code of Python nor comes here again.
#[inline]
fn with_table<R>(py: Py, run: impl FnOnce(&mut Table) -> R) -> R {
    let _locked = (!py.is_plain()).then(|| TABLE.lock.lock().unwrap_or_else(PoisonError::into_inner));
    // SAFETY: this thread holds the interpreter's lock, or that of the table.
    run(unsafe { &mut *TABLE.table.get() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_counted_whatever_places_they_have() {
        let mut table = Table { places: [(ptr::null_mut(), 0); PLACES], more: None };
        // Several of each place.
        let addresses: Vec<*mut u8> = (1..2000).map(|at| ptr::without_provenance_mut(at * 48)).collect();
        for (round, memory) in addresses.iter().enumerate() {
            assert!(!table.add(*memory));
            table.insert(*memory);
            for _ in 0..round % 3 {
                assert!(table.add(*memory));
            }
        }
        for (round, memory) in addresses.iter().enumerate() {
            for _ in 0..round % 3 {
                assert!(!table.remove(*memory));
            }
            assert!(table.remove(*memory));
            assert!(!table.add(*memory) && !table.remove(*memory));
        }
        assert!(table.more.is_none_or(|more| more.is_empty()));
    }
}
