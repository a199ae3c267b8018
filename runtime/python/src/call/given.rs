//! The arguments of a call as CPython passes them.

use core::ptr;

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult, Raised};

/// Arguments as CPython's fast calls pass them, borrowed for the call.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    /// The object that a method is called for, before the others; NULL if there is none.
    receiver: *mut PyObject,
    values: *const *mut PyObject,
    positional: usize,
    /// A tuple of names, whose values follow the positional ones; NULL if there are none.
    names: *mut PyObject,
}

impl Given {
    /// Wraps the arguments of a call.
    #[inline]
    pub(crate) fn new(values: *const *mut PyObject, positional: isize, names: *mut PyObject) -> Self {
        Self { receiver: ptr::null_mut(), values, positional: positional.max(0) as usize, names }
    }

    /// The arguments of a method, with its object as the first one.
    #[inline]
    pub(crate) fn behind(receiver: *mut PyObject, given: Self) -> Self {
        Self { receiver, positional: given.positional + 1, ..given }
    }

    /// The object that a method is called for; NULL if there is none.
    #[inline]
    pub(crate) fn receiver(self) -> *mut PyObject {
        self.receiver
    }

    /// The number of positional arguments.
    #[inline]
    pub(crate) fn positional(self) -> usize {
        self.positional
    }

    /// The names of the keyword arguments, a tuple; NULL if there are none.
    #[inline]
    pub(crate) fn names(self) -> *mut PyObject {
        self.names
    }

    /// A tuple of the positional arguments from this index on, behind another object.
    ///
    /// # Safety
    /// The arguments live for the call.
    pub(super) unsafe fn positional_from(self, py: Py, start: usize, first: Option<Owned>) -> PyResult<Owned> {
        let before = usize::from(first.is_some());
        // SAFETY: promised by the caller.
        unsafe {
            let tuple = Owned::take(py, py.PyTuple_New((before + self.positional - start) as isize))?;
            if let Some(first) = first {
                py.put(&tuple, 0, first)?;
            }
            for index in start..self.positional {
                py.put(&tuple, before + index - start, Owned::share(py, self.value(index)))?;
            }
            Ok(tuple)
        }
    }

    /// Calls a Python object with these arguments behind another one.
    ///
    /// # Safety
    /// The arguments live for the call, and so does `callable`.
    #[inline(never)]
    pub(crate) unsafe fn call_behind(self, py: Py, callable: *mut PyObject, first: Option<Owned>) -> PyResult<Owned> {
        // SAFETY: promised by the caller: the names are NULL or a tuple of texts, whose values
        // follow the positional arguments.
        unsafe {
            let args = self.positional_from(py, 0, first)?;
            let named = Owned::take(py, py.PyDict_New())?;
            let count = if self.names.is_null() { 0 } else { py.PyTuple_Size(self.names) };
            for place in 0..count {
                let value = self.value(self.positional + place as usize);
                if py.PyDict_SetItem(named.as_ptr(), py.PyTuple_GetItem(self.names, place), value) != 0 {
                    return Err(Raised);
                }
            }
            Owned::take(py, py.PyObject_Call(callable, args.as_ptr(), named.as_ptr()))
        }
    }

    /// The argument at this index.
    ///
    /// # Safety
    /// There is such an argument.
    #[inline]
    pub(crate) unsafe fn value(self, index: usize) -> *mut PyObject {
        // SAFETY: promised by the caller.
        unsafe {
            match (self.receiver.is_null(), index) {
                (true, _) => *self.values.add(index),
                (false, 0) => self.receiver,
                (false, _) => *self.values.add(index - 1),
            }
        }
    }
}
