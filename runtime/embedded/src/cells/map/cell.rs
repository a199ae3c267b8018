//! The cell of a map or dict: its two forms, its storage, and its destruction.
//!
//! The object is 80 bytes: header 24, [`TVMFFIMapCell`] 32, and three fields of the dense form
//! (`shift` at 56, `head` at 64, `tail` at 72). Bit 63 of `slots` marks the small form. `data`
//! points to the form's storage, which `data_deleter` frees, whichever library allocated it. C++
//! code converts a small dict to a dense one in place.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIMapCell, TVMFFIObject};

use super::blocks::{NO_SLOT, free_blocks};
use super::dense::DenseTable;
use crate::cells::release::Releasing;
use crate::cells::{ObjectCell, new_object, new_object_with_tail};

pub(super) const SMALL: u64 = 1 << 63;
pub(super) const SMALL_MIN: u64 = 2;
pub(super) const SMALL_MAX: u64 = 4;

#[repr(C)]
pub(super) struct MapBody {
    pub(super) cell: TVMFFIMapCell,
    // Used by the dense form only.
    shift: u32,
    padding: u32,
    pub(super) head: u64,
    tail: u64,
}

const _: () = assert!(size_of::<ObjectCell<MapBody>>() == 80);

/// A key-value pair of the small form.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) key: TVMFFIAny,
    pub(super) value: TVMFFIAny,
}

impl Drop for MapBody {
    fn drop(&mut self) {
        // SAFETY: no other code uses a dying map, and its storage is freed once.
        unsafe {
            let releasing = Releasing::begin();
            if is_small(self) {
                for pair in small_pairs(self) {
                    releasing.give_up(pair.key);
                    releasing.give_up(pair.value);
                }
            } else {
                for item in dense_table(self).items() {
                    releasing.give_up((*item).key);
                    releasing.give_up((*item).value);
                }
            }
            drop(releasing);
            if let Some(deleter) = self.cell.data_deleter {
                deleter(self.cell.data);
            }
        }
    }
}

pub(super) fn new_small(type_index: i32, capacity: u64) -> *mut TVMFFIObject {
    let capacity = capacity.max(SMALL_MIN);
    let cell = TVMFFIMapCell { data: core::ptr::null_mut(), size: 0, slots: capacity | SMALL, data_deleter: None };
    let body = MapBody { cell, shift: 63, padding: 0, head: NO_SLOT, tail: NO_SLOT };
    let map = new_object_with_tail(type_index, body, capacity as usize * size_of::<Pair>());
    // SAFETY: the object is new and ours; its tail has room for the pairs and is aligned to 8.
    unsafe {
        let tail = map.cast::<ObjectCell<MapBody>>().add(1);
        (&raw mut (*body_of(map)).cell.data).write(tail.cast());
    }
    map
}

pub(super) fn new_dense(type_index: i32, table: DenseTable) -> *mut TVMFFIObject {
    let DenseTable { data, size, slots, shift, head, tail } = table;
    let cell = TVMFFIMapCell { data: data.cast(), size, slots, data_deleter: Some(free_blocks) };
    new_object(type_index, MapBody { cell, shift, padding: 0, head, tail })
}

pub(super) unsafe fn body_of(map: *mut TVMFFIObject) -> *mut MapBody {
    // SAFETY: the caller passes a map or dict. C++ gives small maps at least 120 bytes, so the
    // dense fields exist.
    unsafe { &raw mut (*map.cast::<ObjectCell<MapBody>>()).body }
}

// SAFETY of the functions below: `body` belongs to a live map or dict that no other code uses
// during the call; `data` points to the storage that the ABI defines for its form.

pub(super) unsafe fn is_small(body: *const MapBody) -> bool {
    // SAFETY: see above.
    unsafe { (*body).cell.slots & SMALL != 0 }
}

/// The pairs of the small form.
pub(super) unsafe fn small_pairs<'a>(body: *const MapBody) -> &'a mut [Pair] {
    // SAFETY: see above.
    unsafe {
        let size = (*body).cell.size as usize;
        if size == 0 { &mut [] } else { core::slice::from_raw_parts_mut((*body).cell.data.cast(), size) }
    }
}

pub(super) unsafe fn dense_table(body: *const MapBody) -> DenseTable {
    // SAFETY: see above.
    unsafe {
        let MapBody { cell, shift, head, tail, .. } = &*body;
        let data = cell.data.cast();
        DenseTable { data, size: cell.size, slots: cell.slots, shift: *shift, head: *head, tail: *tail }
    }
}

/// Writes the changed counts and links of the dense form back.
pub(super) unsafe fn store(body: *mut MapBody, table: &DenseTable) {
    // SAFETY: see above.
    unsafe {
        (*body).cell.size = table.size;
        (*body).head = table.head;
        (*body).tail = table.tail;
    }
}

/// Replaces the map's storage by that of `table`, which has all its entries, and frees the old
/// storage.
pub(super) unsafe fn switch_to(body: *mut MapBody, table: &DenseTable) {
    // SAFETY: see above; the entries were moved into the table as plain data.
    unsafe {
        let old = ((*body).cell.data, (*body).cell.data_deleter);
        (*body).cell.data = table.data.cast();
        (*body).cell.slots = table.slots;
        (*body).cell.data_deleter = Some(free_blocks);
        (*body).shift = table.shift;
        store(body, table);
        free_storage(old);
    }
}

pub(super) unsafe fn free_storage((data, deleter): (*mut c_void, Option<unsafe extern "C" fn(*mut c_void)>)) {
    if let Some(deleter) = deleter {
        // SAFETY: the map owned this storage and does not use it any more.
        unsafe { deleter(data) }
    }
}
