//! Construction of maps and dicts: from pairs, from views, and as copies.

use super::cell::{Pair, SMALL_MAX, body_of, dense_table, is_small, new_dense, new_small, small_pairs};
use super::dense::DenseTable;
use super::{set, set_expecting};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::cells::dec_ref;
use crate::cells::failure::Failure;
use crate::cells::release::{release, release_elements, retain, to_owned};

/// Creates a map of owned pairs; of equal keys, the last one is used. The caller owns the
/// reference.
pub fn new_map(pairs: Vec<(TVMFFIAny, TVMFFIAny)>) -> Result<*mut TVMFFIObject, Failure> {
    create(type_index::MAP, pairs.into_iter())
}

/// Creates a dict (a map that is changed in place while shared); see [`new_map`].
pub fn new_dict(pairs: Vec<(TVMFFIAny, TVMFFIAny)>) -> Result<*mut TVMFFIObject, Failure> {
    create(type_index::DICT, pairs.into_iter())
}

/// Like [`new_map`], from alternating keys and values.
///
/// # Errors
/// As for [`new_map`].
///
/// # Safety
/// The caller owns the keys and values, and does not use them afterwards. There are as many keys as
/// values.
pub unsafe fn new_map_of_moved(values: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    create(type_index::MAP, values.as_chunks::<2>().0.iter().map(|[key, value]| (*key, *value)))
}

fn create(
    type_index: i32,
    mut pairs: impl ExactSizeIterator<Item = (TVMFFIAny, TVMFFIAny)>,
) -> Result<*mut TVMFFIObject, Failure> {
    let capacity = pairs.len() as u64;
    let map = if capacity < SMALL_MAX {
        new_small(type_index, capacity)
    } else {
        new_dense(type_index, DenseTable::with_capacity(capacity))
    };
    for (key, value) in pairs.by_ref() {
        // SAFETY: the map is new and ours; the pair's ownership moves into it.
        if let Err(failure) = unsafe { set(map, key, value) } {
            // SAFETY: the map and the remaining pairs are ours and not used any more.
            unsafe {
                dec_ref(map);
                release_elements(pairs.flat_map(|(key, value)| [key, value]));
            }
            return Err(failure);
        }
    }
    Ok(map)
}

/// Creates a map of views (a packed function's arguments): alternating keys and values, set one
/// after the other in an empty map. The caller owns the reference.
///
/// # Errors
/// A view cannot be converted to an owned value, or a key's hash or equality hook failed.
///
/// # Safety
/// Each view follows the ABI's rules for its type index, and the object that it refers to is alive.
/// A last key without a value is ignored.
pub unsafe fn new_map_of_views(views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    unsafe { create_of_views(type_index::MAP, views) }
}

/// Creates a dict of views; see [`new_map_of_views`].
///
/// # Errors
/// As for [`new_map_of_views`].
///
/// # Safety
/// As for [`new_map_of_views`].
pub unsafe fn new_dict_of_views(views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    unsafe { create_of_views(type_index::DICT, views) }
}

unsafe fn create_of_views(type_index: i32, views: &[TVMFFIAny]) -> Result<*mut TVMFFIObject, Failure> {
    let count = (views.len() / 2) as u64;
    // Begins with the small form for any count, because the form determines the position of a
    // repeated key.
    let map = new_small(type_index, count.min(SMALL_MAX));
    // SAFETY: the views are the caller's promise; the map is new and ours.
    unsafe {
        for pair in views.as_chunks::<2>().0 {
            if let Err(failure) = set_view(map, pair, count) {
                dec_ref(map);
                return Err(failure);
            }
        }
    }
    Ok(map)
}

unsafe fn set_view(map: *mut TVMFFIObject, [key, value]: &[TVMFFIAny; 2], expected: u64) -> Result<(), Failure> {
    // SAFETY: the caller promises valid views and a map of its own.
    unsafe {
        let key = to_owned(key)?;
        match to_owned(value) {
            Ok(value) => set_expecting(map, key, value, expected),
            Err(failure) => {
                release(key);
                Err(failure)
            }
        }
    }
}

/// A shallow copy of the same type, with the same order; the caller owns the reference.
///
/// # Safety
/// As for [`get`](super::get).
pub unsafe fn copy(map: *mut TVMFFIObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller; each key and value gets a second owner.
    unsafe {
        let body = body_of(map);
        if !is_small(body) {
            let table = dense_table(body);
            for item in table.items() {
                retain(&(*item).key);
                retain(&(*item).value);
            }
            return new_dense((*map).type_index, table.duplicate());
        }
        let copy = new_small((*map).type_index, (*body).cell.size);
        let pairs = small_pairs(body);
        for pair in pairs.iter() {
            retain(&pair.key);
            retain(&pair.value);
        }
        (*body_of(copy)).cell.data.cast::<Pair>().copy_from_nonoverlapping(pairs.as_ptr(), pairs.len());
        (*body_of(copy)).cell.size = (*body).cell.size;
        copy
    }
}
