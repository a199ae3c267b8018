//! The contents of dicts and iterables at one moment, held, so that later Python code does not
//! change them.

use core::ptr;

use super::capi::{Py, PyObject};
use super::object::{Owned, PyResult};

impl Py {
    /// The keys and values of a dict at this moment, independent of later changes by Python code.
    ///
    /// # Safety
    /// `dict` is a live `dict`.
    pub(crate) unsafe fn entries(self, dict: *mut PyObject) -> PyResult<Vec<[Owned; 2]>> {
        let mut entries = Vec::new();
        // SAFETY: promised by the caller. With the interpreter's lock no code runs between two
        // steps, nor before a reference is counted.
        unsafe {
            if self.is_plain() {
                entries.reserve(self.PyDict_Size(dict).max(0) as usize);
                let (mut place, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
                while self.PyDict_Next(dict, &mut place, &mut key, &mut value) != 0 {
                    entries.push([Owned::share(self, key), Owned::share(self, value)]);
                }
                return Ok(entries);
            }
            // The function locks the dict. The list is new, but other threads may find it through
            // the garbage collector.
            let items = Owned::take(self, self.PyDict_Items(dict))?;
            while let Some(pair) = self.list_item(items.as_ptr(), entries.len() as isize)? {
                if self.type_of(pair.as_ptr()) != self.PyTuple_Type() || self.PyTuple_Size(pair.as_ptr()) != 2 {
                    return Err(self
                        .raise(self.PyExc_RuntimeError(), "the entries of a dict were changed while they were read"));
                }
                let entry = |index| Owned::share(self, self.PyTuple_GetItem(pair.as_ptr(), index));
                entries.push([entry(0), entry(1)]);
            }
        }
        Ok(entries)
    }

    /// Creates a list of the elements of any iterable. Python's garbage collector does not track
    /// it, so no other code finds it.
    ///
    /// # Safety
    /// `object` is alive.
    pub(crate) unsafe fn list_of(self, object: *mut PyObject) -> PyResult<Owned> {
        // SAFETY: promised by the caller; the list is alive.
        unsafe {
            let list = Owned::take(self, self.PySequence_List(object))?;
            self.PyObject_GC_UnTrack(list.as_ptr().cast());
            Ok(list)
        }
    }
}
