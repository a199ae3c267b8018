//! A type of its own: a vector of integers that every language creates, indexes and changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kernpack::{ObjRef, Object, Result, bail, packed_func};

/// A vector of integers.
///
/// Other languages hold it by reference and share it, so it may change under the eyes of a second holder; a lock keeps every
/// single call whole.
#[derive(Object)]
#[object(key = "extension.IntVector")]
#[repr(C)]
pub struct IntVector {
    values: Mutex<Vec<i64>>,
}

impl From<Vec<i64>> for IntVector {
    fn from(values: Vec<i64>) -> Self {
        Self { values: Mutex::new(values) }
    }
}

impl IntVector {
    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<i64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<i64>> {
        // Nothing that runs under the lock can leave the vector half changed.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position that an index means: from the end when it is negative, as in Python.
fn position(index: i64, len: usize) -> Result<usize> {
    let from_start = if index < 0 { index.checked_add(len as i64) } else { Some(index) };
    match from_start.and_then(|index| usize::try_from(index).ok()) {
        Some(position) if position < len => Ok(position),
        _ => bail!(IndexError, "index {index} is out of range for an IntVector of {len} elements"),
    }
}

/// Makes a vector of these elements.
#[packed_func]
pub fn ivec_create(values: Vec<i64>) -> ObjRef<IntVector> {
    ObjRef::new(IntVector::from(values))
}

/// Number of elements.
#[packed_func]
pub fn ivec_len(vector: ObjRef<IntVector>) -> i64 {
    vector.lock().len() as i64
}

/// The element at `index`; IndexError when there is none.
#[packed_func]
pub fn ivec_get(vector: ObjRef<IntVector>, index: i64) -> Result<i64> {
    let values = vector.lock();
    Ok(values[position(index, values.len())?])
}

/// Changes the element at `index`; IndexError when there is none.
#[packed_func]
pub fn ivec_set(vector: ObjRef<IntVector>, index: i64, value: i64) -> Result<()> {
    let mut values = vector.lock();
    let position = position(index, values.len())?;
    values[position] = value;
    Ok(())
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
        assert_eq!(position(3, 3).unwrap_err().message(), "index 3 is out of range for an IntVector of 3 elements");
    }
}
