//! NumPy's memory, held while Rust code uses it. A reference to an array, or a buffer of it, does not hold its memory: `resize` and
//! `__setstate__` replace it. They free only what the array owns, so an array in use is one that does not own its memory, for as long.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::hash::{BuildHasherDefault, Hasher};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::capi::{Py, PyObject};
use crate::lend::ArrayFields;
use crate::object::{Owned, PyResult};

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
    /// The array that owns the memory, or what else it comes from; a reference to it.
    owner: *mut PyObject,
    /// The memory in [`TABLE`]; NULL if the owner is not an array that owns memory.
    memory: *mut u8,
}

impl Held {
    /// Holds the memory of an array.
    ///
    /// # Safety
    /// `array` is alive, and its class is [`ndarray`], not NULL, or derived from it.
    #[inline]
    pub(crate) unsafe fn new(py: Py, array: *mut PyObject) -> Self {
        let class = NDARRAY.load(Ordering::Acquire);
        let mut owner = array;
        // SAFETY: promised by the caller; the base of an array, which it keeps, is followed if it is an array itself. No code of Python runs.
        unsafe {
            for _ in 0..DEEPEST {
                let base = (*fields(py, owner)).base;
                if base.is_null() {
                    break;
                }
                let of = py.type_of(base);
                let is_array = of == class || py.PyType_IsSubtype(of, class) != 0;
                owner = base;
                if !is_array {
                    return Self { owner: Owned::share(py, owner).into_ptr(), memory: ptr::null_mut() };
                }
            }
            let memory = (*fields(py, owner)).data.cast::<u8>();
            let is_owned = with_table(py, |table| {
                let flags = flags(py, owner);
                // It is no owner, but for others that hold its memory.
                if flags.load(Ordering::Relaxed) & OWNS_DATA == 0 && !table.contains_key(&memory) {
                    return false;
                }
                flags.fetch_and(!OWNS_DATA, Ordering::Relaxed);
                *table.entry(memory).or_insert(0) += 1;
                true
            });
            let memory = if is_owned { memory } else { ptr::null_mut() };
            Self { owner: Owned::share(py, owner).into_ptr(), memory }
        }
    }

    /// Lets go of the memory. An array that has got other memory meanwhile does not get this one back: it is lost.
    pub(crate) fn release(self, py: Py) {
        // SAFETY: the owner is alive until its reference is given up, here, once.
        unsafe {
            if !self.memory.is_null() {
                with_table(py, |table| {
                    let Some(count) = table.get_mut(&self.memory) else { return };
                    *count -= 1;
                    if *count == 0 {
                        table.remove(&self.memory);
                        if (*fields(py, self.owner)).data.cast() == self.memory {
                            flags(py, self.owner).fetch_or(OWNS_DATA, Ordering::Relaxed);
                        }
                    }
                });
            }
            py.Py_DecRef(self.owner);
        }
    }
}

/// The number of holders of memory, by its address.
type Counts = HashMap<*mut u8, usize, BuildHasherDefault<AddressHasher>>;

struct Table {
    counts: UnsafeCell<Option<Counts>>,
    /// Taken where there is no interpreter's lock.
    lock: Mutex<()>,
}

// SAFETY: all uses hold one of the two locks.
unsafe impl Sync for Table {}

static TABLE: Table = Table { counts: UnsafeCell::new(None), lock: Mutex::new(()) };

/// Runs code that neither runs code of Python nor comes here again.
#[inline]
fn with_table<R>(py: Py, run: impl FnOnce(&mut Counts) -> R) -> R {
    let _locked = (!py.is_plain()).then(|| TABLE.lock.lock().unwrap_or_else(PoisonError::into_inner));
    // SAFETY: this thread holds the interpreter's lock, or that of the table.
    run(unsafe { (*TABLE.counts.get()).get_or_insert_default() })
}

/// A hash of an address, whose lowest bits are the same in all.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0 ^ value as u64).wrapping_mul(ODD);
    }
}
