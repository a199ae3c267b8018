//! Iteration over Python objects.

use core::iter::FusedIterator;
use core::ptr::NonNull;

use kernpack_core::Result;

use super::{Object, with};
use crate::cpython::object::{Owned, Raised};

/// The elements of a Python object, each of which may be an exception; see [`Object::iterate`].
#[derive(Debug)]
pub struct Iter {
    /// `None` after the end, and after an exception.
    iterator: Option<Object>,
}

impl Object {
    /// Returns an iterator over the elements, like `iter(object)`. It ends after an exception.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a TypeError for an object without elements.
    pub fn iterate(&self) -> Result<Iter> {
        // SAFETY: the object is alive, and the lock is held.
        let iterator = with(|py| unsafe { Owned::take(py, py.PyObject_GetIter(self.handle())) }.map(Self::of))?;
        Ok(Iter { iterator: Some(iterator) })
    }

    /// Returns the keys and values of a mapping, like `list(object.items())`. Those of a `dict` are
    /// read at once, without Python code.
    ///
    /// # Errors
    /// Returns the exception that Python raises: an AttributeError for an object without `items`.
    pub fn entries(&self) -> Result<Vec<(Self, Self)>> {
        // SAFETY: the object is alive, and an exact `dict`.
        let of_dict = with(|py| unsafe {
            if py.type_of(self.handle()) != py.PyDict_Type() {
                return Ok(None);
            }
            let entries = py.entries(self.handle())?.into_iter();
            Ok(Some(entries.map(|[key, value]| (Self::of(key), Self::of(value))).collect()))
        })?;
        match of_dict {
            Some(entries) => Ok(entries),
            None => self.call_method("items", ())?.iterate()?.map(|pair| pair?.to()).collect(),
        }
    }
}

impl Iterator for Iter {
    type Item = Result<Object>;

    fn next(&mut self) -> Option<Result<Object>> {
        let iterator = self.iterator.as_ref()?;
        // SAFETY: the result of `iter` is an iterator, which is alive; at the end no exception is
        // set.
        let next = with(|py| unsafe {
            match NonNull::new(py.PyIter_Next(iterator.handle())) {
                Some(next) => Owned::take(py, next.as_ptr()).map(|next| Some(Object::of(next))),
                None if py.PyErr_Occurred().is_null() => Ok(None),
                None => Err(Raised),
            }
        });
        if !matches!(next, Ok(Some(_))) {
            self.iterator = None;
        }
        next.transpose()
    }
}

impl FusedIterator for Iter {}
