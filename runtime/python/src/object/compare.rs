//! Comparison and hash by Python.

use core::cmp::Ordering;
use core::ffi::c_int;
use core::hash::{Hash, Hasher};

use kernpack_core::Result;

use super::{Object, truth, with};
use crate::cpython::object::{Owned, Raised};
use crate::cpython::pending;

/// A comparison of two Python objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less = 0,
    /// `<=`
    LessOrEqual = 1,
    /// `==`
    Equal = 2,
    /// `!=`
    NotEqual = 3,
    /// `>`
    Greater = 4,
    /// `>=`
    GreaterOrEqual = 5,
}

impl Object {
    /// Returns `hash(object)`.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a TypeError for an object without a hash.
    pub fn hash_value(&self) -> Result<isize> {
        // SAFETY: the object is alive, and the lock is held.
        with(|py| match unsafe { py.PyObject_Hash(self.handle()) } {
            -1 => Err(Raised),
            hash => Ok(hash),
        })
    }

    /// Returns whether a comparison holds, as `if` finds it. Two references to one object are
    /// compared like all others.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a TypeError for two objects without an order.
    pub fn compares(&self, comparison: Comparison, other: &Self) -> Result<bool> {
        // SAFETY: both are alive, and the lock is held.
        with(|py| unsafe {
            let result = py.PyObject_RichCompare(self.handle(), other.handle(), comparison as c_int);
            let result = Owned::take(py, result)?;
            if result.as_ptr() == py._Py_TrueStruct() || result.as_ptr() == py._Py_FalseStruct() {
                return Ok(result.as_ptr() == py._Py_TrueStruct());
            }
            truth(py.PyObject_IsTrue(result.as_ptr()))
        })
    }

    /// Returns whether the objects are equal, as a `dict` and a `list` compare them: an object is
    /// equal to itself, otherwise `==` decides.
    ///
    /// # Errors
    /// Returns the exception that Python raises.
    pub fn equals(&self, other: &Self) -> Result<bool> {
        if self.is(other) { Ok(true) } else { self.compares(Comparison::Equal, other) }
    }

    /// Returns the order of two objects; `None` if none of `==`, `<` and `>` holds.
    ///
    /// # Errors
    /// Returns the exception that Python raises: a TypeError for two objects without an order.
    pub fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        let orders = [
            (Comparison::Equal, Ordering::Equal),
            (Comparison::Less, Ordering::Less),
            (Comparison::Greater, Ordering::Greater),
        ];
        for (comparison, order) in orders {
            if self.compares(comparison, other)? {
                return Ok(Some(order));
            }
        }
        Ok(None)
    }
}

/// Like [`Object::equals`]; `false` if it raises, and the call from Python raises the exception.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other).unwrap_or_else(|error| {
            pending::record(error);
            false
        })
    }
}

impl Eq for Object {}

/// Like [`Object::hash_value`]; 0 if it raises, and the call from Python raises the exception.
impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let hash = self.hash_value().unwrap_or_else(|error| {
            pending::record(error);
            0
        });
        state.write_isize(hash);
    }
}

/// Like [`Object::compare`]; `None` if it raises, and the call from Python raises the exception.
impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.compare(other).unwrap_or_else(|error| {
            pending::record(error);
            None
        })
    }
}
