//! Shape cells: dimensions inside the object.

use crate::abi::{TVMFFIObject, TVMFFIShapeCell, type_index};

use super::{ObjectCell, body, new_object_with_tail};

/// Creates a shape; the caller owns the reference.
pub fn new_shape(dimensions: &[i64]) -> *mut TVMFFIObject {
    new_shape_of(dimensions.iter().copied())
}

/// Creates a shape from an iterator of dimensions; the caller owns the reference.
#[inline]
pub fn new_shape_of(dimensions: impl ExactSizeIterator<Item = i64>) -> *mut TVMFFIObject {
    let size = dimensions.len();
    let cell = TVMFFIShapeCell { data: core::ptr::null(), size: 0 };
    let object = new_object_with_tail(type_index::SHAPE, cell, size.saturating_mul(size_of::<i64>()));
    // SAFETY: the object is new and ours; its tail has room for the dimensions and is aligned to 8.
    unsafe {
        let cell = object.cast::<ObjectCell<TVMFFIShapeCell>>();
        let tail = cell.add(1).cast::<i64>();
        let mut count = 0;
        for dimension in dimensions.take(size) {
            tail.add(count).write(dimension);
            count += 1;
        }
        (&raw mut (*cell).body).write(TVMFFIShapeCell { data: tail, size: count });
    }
    object
}

/// The dimensions of a shape.
///
/// # Safety
/// `shape` is a live shape object and stays alive for `'a`.
pub unsafe fn dimensions<'a>(shape: *mut TVMFFIObject) -> &'a [i64] {
    // SAFETY: promised by the caller; shapes are never changed.
    unsafe {
        let cell = body::<TVMFFIShapeCell>(shape);
        if cell.size == 0 || cell.data.is_null() {
            return &[];
        }
        core::slice::from_raw_parts(cell.data, cell.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::dec_ref;

    #[test]
    fn dimensions_are_copied() {
        for expected in [&[][..], &[3], &[2, 0, -1, i64::MAX]] {
            let shape = new_shape(expected);
            // SAFETY: the test owns the reference.
            unsafe {
                assert_eq!(dimensions(shape), expected);
                dec_ref(shape);
            }
        }
    }
}
