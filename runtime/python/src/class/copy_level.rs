//! The objects that `copy.deepcopy` is copying on this thread, and the error for an object that is
//! a part of itself.

use core::cell::{Cell, RefCell};
use core::ptr;

use kernpack_core::abi::{TVMFFIObject, type_index};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::object::{Owned, Raised};

/// An object, list or dict that is being copied, and the memo of its copy: Python code may begin
/// another copy meanwhile.
#[derive(Clone, Copy)]
struct Open {
    object: *mut TVMFFIObject,
    memo: *mut PyObject,
    is_object: bool,
    number: u64,
}

thread_local! {
    /// Objects, lists and dicts that are being copied, the outermost first.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
    /// The number of copies begun.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The last error about a part of itself, which this holds, and the memo; NULL before the first
    /// one of the outermost copy.
    static FOUND: Cell<(*mut PyObject, *mut PyObject)> = const { Cell::new((ptr::null_mut(), ptr::null_mut())) };
}

/// A scope in which one of these is being copied.
pub(crate) struct Level {
    number: u64,
    memo: *mut PyObject,
    py: Py,
}

impl Level {
    /// # Safety
    /// The object and the memo are alive as long as the result.
    pub(crate) unsafe fn enter(py: Py, object: *mut TVMFFIObject, memo: *mut PyObject) -> Self {
        let number = BEGUN.replace(BEGUN.get().wrapping_add(1));
        // SAFETY: promised by the caller.
        let is_object = unsafe { (*object).type_index } >= type_index::STATIC_OBJECT_END;
        OPEN.with_borrow_mut(|open| open.push(Open { object, memo, is_object, number }));
        Self { number, memo, py }
    }

    /// Clears the error that is set if it is about a part of itself and the copy begins here, so
    /// that the whole can be copied in another way.
    pub(crate) fn takes_error(&self) -> bool {
        let (found, memo) = FOUND.get();
        let begins_here = || {
            OPEN.with_borrow(|open| {
                open.iter().find(|open| open.memo == self.memo).is_some_and(|first| first.number == self.number)
            })
        };
        if found.is_null() || memo != self.memo || !begins_here() {
            return false;
        }
        let Some(exception) = exception::take_exception(self.py) else { return false };
        let is_it = exception.as_ptr() == found;
        if !is_it {
            exception::put_back(self.py, exception);
        }
        is_it
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        // Not always the last one: code that switches stacks on a thread may end another one first.
        let is_last = OPEN.with_borrow_mut(|open| {
            if let Some(place) = open.iter().rposition(|open| open.number == self.number) {
                open.remove(place);
            }
            open.is_empty()
        });
        if is_last {
            note(self.py, ptr::null_mut(), ptr::null_mut());
        }
    }
}

/// Records an error in place of the previous one, and takes over the reference to it.
fn note(py: Py, error: *mut PyObject, memo: *mut PyObject) {
    let (before, _) = FOUND.replace((error, memo));
    if !before.is_null() {
        // SAFETY: the reference was the cell's.
        unsafe { py.Py_DecRef(before) };
    }
}

/// Returns true if an object is between a container and here: it would be created from the part of
/// the container that is copied so far.
pub(crate) fn is_inside_an_object(container: *mut TVMFFIObject, memo: *mut PyObject) -> bool {
    OPEN.with_borrow(|open| {
        let place = open.iter().rposition(|open| open.object == container && open.memo == memo);
        place.is_some_and(|place| open[place..].iter().any(|open| open.is_object))
    })
}

/// The error for an object that occurs on the path to a copy of itself.
pub(crate) fn part_of_itself(py: Py, memo: *mut PyObject) -> Raised {
    let text = "an object is a part of itself, so that its constructor cannot take a copy of it";
    py.raise(py.PyExc_ValueError(), text);
    if let Some(exception) = exception::take_exception(py) {
        // SAFETY: the exception is alive.
        note(py, unsafe { Owned::share(py, exception.as_ptr()) }.into_ptr(), memo);
        exception::put_back(py, exception);
    }
    Raised
}
