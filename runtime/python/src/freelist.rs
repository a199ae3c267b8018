//! Memory of objects that were freed, for the next ones of the same size.
//!
//! A result of the library is a small Python object that mostly lives for a moment. CPython keeps such memory for its own classes, too.

use core::cell::UnsafeCell;
use core::ptr;

use crate::capi::{Py, PyObject};
use crate::object::{Owned, PyResult};

/// Blocks that are kept: as many as calls nested in each other use, and no more.
const MOST: usize = 16;

/// Memory of objects of one size, whose classes are heap types that the garbage collector does not look at.
pub(crate) struct FreeList(UnsafeCell<Blocks>);

struct Blocks {
    count: usize,
    blocks: [*mut PyObject; MOST],
}

// SAFETY: all uses hold the interpreter's lock: they take a token, and a list without that lock is never filled.
unsafe impl Sync for FreeList {}

impl FreeList {
    /// Nothing is kept yet.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(Blocks { count: 0, blocks: [ptr::null_mut(); MOST] }))
    }

    /// A new object of a class. What is behind its header is not defined: the caller writes it.
    ///
    /// # Safety
    /// The class is one of those whose objects are given to [`FreeList::give`] of this list, and of this size.
    #[inline]
    pub(crate) unsafe fn take(&self, py: Py, class: *mut PyObject) -> PyResult<Owned> {
        // SAFETY: the lock is held, so nothing else uses the list meanwhile; a block is memory of an object of this size that is not in use.
        unsafe {
            let kept = &mut *self.0.get();
            if kept.count == 0 {
                return Owned::take(py, py.PyType_GenericAlloc(class, 0));
            }
            kept.count -= 1;
            let block = kept.blocks[kept.count & (MOST - 1)];
            Owned::take(py, py.PyObject_Init(block, class))
        }
    }

    /// Keeps the memory of an object without references, and gives the object's reference to its class up. `false`: the memory is not kept, and
    /// nothing has happened.
    ///
    /// # Safety
    /// The object is of this class, which is one of those that [`FreeList::take`] is called for.
    #[inline]
    pub(crate) unsafe fn give(&self, py: Py, object: *mut PyObject, class: *mut PyObject) -> bool {
        // Without the interpreter's lock the list would need one of its own.
        if !py.is_plain() {
            return false;
        }
        // SAFETY: as above.
        unsafe {
            let kept = &mut *self.0.get();
            if kept.count == MOST {
                return false;
            }
            kept.blocks[kept.count & (MOST - 1)] = object;
            kept.count += 1;
            py.Py_DecRef(class);
        }
        true
    }
}
