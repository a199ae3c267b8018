//! A new type: a vector of integers that every language can create, index and change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack::{Object, Result, bail, object_methods};

/// A vector of integers.
///
/// Other languages hold it by reference and share it, so another holder may change it at any time.
/// A lock makes every single call atomic.
#[derive(Object)]
#[object(key = "extension.IntVector", structural = "singleton")]
#[repr(C)]
pub struct IntVector {
    values: Mutex<Vec<i64>>,
}

#[object_methods]
impl IntVector {
    /// Creates a vector of these elements.
    #[init]
    pub fn new(#[default(Vec::new())] values: Vec<i64>) -> Self {
        Self { values: Mutex::new(values) }
    }

    /// Number of elements.
    #[method(name = "__len__")]
    fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns the element at `index`, counted from the end if it is negative. IndexError if there
    /// is none.
    #[method(name = "__getitem__")]
    pub fn get(&self, index: i64) -> Result<i64> {
        let values = self.lock();
        Ok(values[position(index, values.len())?])
    }

    /// Changes the element at `index`. IndexError if there is none.
    #[method(name = "__setitem__")]
    pub fn set(&self, index: i64, value: i64) -> Result<()> {
        let mut values = self.lock();
        let position = position(index, values.len())?;
        values[position] = value;
        Ok(())
    }

    /// Appends an element.
    pub fn append(&self, value: i64) {
        self.lock().push(value);
    }

    /// Returns a copy of the elements.
    pub fn to_vec(&self) -> Vec<i64> {
        self.lock().clone()
    }

    /// Formats the vector for Python: `IntVector([1, 2, 3])`.
    #[operator(repr)]
    fn repr(&self) -> String {
        format!("IntVector({:?})", self.lock())
    }

    /// The data that files store. Without this method they would store nothing, because the
    /// elements are not a visible field.
    #[type_attr(name = "__data_to_json__")]
    fn to_json(&self) -> Vec<i64> {
        self.to_vec()
    }

    /// Creates the vector from the data in a file.
    #[type_attr(name = "__data_from_json__")]
    fn from_json(values: Vec<i64>) -> Self {
        Self::new(values)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<i64>> {
        // Code that runs under the lock cannot leave the vector partially changed.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy in any language is a separate vector.
impl Clone for IntVector {
    fn clone(&self) -> Self {
        Self::new(self.to_vec())
    }
}

/// Converts an index to a position, counted from the end if it is negative, as in Python.
fn position(index: i64, len: usize) -> Result<usize> {
    let from_start = if index < 0 { index.checked_add(len as i64) } else { Some(index) };
    match from_start.and_then(|index| usize::try_from(index).ok()) {
        Some(position) if position < len => Ok(position),
        _ => bail!(IndexError, "index {index} is out of range for an IntVector of {len} elements"),
    }
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn positions() {
        for (index, len, expected) in [
            (0, 3, Some(0)),
            (2, 3, Some(2)),
            (-1, 3, Some(2)),
            (-3, 3, Some(0)),
            (3, 3, None),
            (-4, 3, None),
            (0, 0, None),
            (i64::MIN, 3, None),
            (i64::MAX, 3, None),
        ] {
            assert_eq!(position(index, len).ok(), expected, "{index} of {len}");
        }
    }
}
