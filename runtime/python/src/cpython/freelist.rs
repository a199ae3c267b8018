//! Reuse of freed memory for objects of the same size.
//!
//! A result of the library is a small Python object that usually is short-lived. CPython also
//! caches such memory for its own classes.

use core::cell::UnsafeCell;
use core::ptr;

use super::capi::{Py, PyObject};
use super::object::{Owned, PyResult};

/// The most blocks that are kept: as many as nested calls use, and no more.
const MOST: usize = 16;

/// Unused items of one kind.
pub(crate) struct Pool<T>(UnsafeCell<Kept<T>>);

struct Kept<T> {
    count: usize,
    places: [*mut T; MOST],
}

// SAFETY: all uses hold the interpreter's lock: they take a token, and a pool without that lock is
// never filled.
unsafe impl<T> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// Creates an empty pool.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(Kept { count: 0, places: [ptr::null_mut(); MOST] }))
    }

    /// Takes an item, which belongs to the caller now.
    #[inline]
    pub(crate) fn take(&self, _: Py) -> Option<*mut T> {
        // SAFETY: the lock is held, so nothing else uses the pool meanwhile.
        let kept = unsafe { &mut *self.0.get() };
        kept.count = kept.count.checked_sub(1)?;
        Some(kept.places[kept.count & (MOST - 1)])
    }

    /// Keeps an item of the caller. Returns `false`, without any effect, if the caller still owns
    /// it.
    #[inline]
    pub(crate) fn give(&self, py: Py, thing: *mut T) -> bool {
        // Without the interpreter's lock the pool would need a lock of its own.
        if !py.is_plain() {
            return false;
        }
        // SAFETY: the lock is held, so nothing else uses the pool meanwhile.
        let kept = unsafe { &mut *self.0.get() };
        if kept.count == MOST {
            return false;
        }
        kept.places[kept.count & (MOST - 1)] = thing;
        kept.count += 1;
        true
    }
}

/// Memory of objects of one size, whose classes are heap types that the garbage collector does not
/// track.
pub(crate) struct FreeList(Pool<PyObject>);

impl FreeList {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        Self(Pool::new())
    }

    /// Creates an object of a class. The part after its header is undefined: the caller writes it.
    ///
    /// # Safety
    /// The class is one of those whose objects are passed to [`FreeList::give`] of this list, and
    /// of this size.
    #[inline]
    pub(crate) unsafe fn take(&self, py: Py, class: *mut PyObject) -> PyResult<Owned> {
        // SAFETY: promised by the caller; a block is memory of an object of this size that is not
        // in use.
        unsafe {
            Owned::take(
                py,
                match self.0.take(py) {
                    Some(block) => py.PyObject_Init(block, class),
                    None => py.PyType_GenericAlloc(class, 0),
                },
            )
        }
    }

    /// Keeps the memory of an object without references, and gives up the object's reference to its
    /// class. Returns `false`, without any effect, if the memory is not kept.
    ///
    /// # Safety
    /// The object is of this class, which is one of those for which [`FreeList::take`] is called.
    #[inline]
    pub(crate) unsafe fn give(&self, py: Py, object: *mut PyObject, class: *mut PyObject) -> bool {
        let is_kept = self.0.give(py, object);
        if is_kept {
            // SAFETY: promised by the caller: the object had a reference to its class.
            unsafe { py.Py_DecRef(class) };
        }
        is_kept
    }
}
