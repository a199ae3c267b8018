//! The small form: up to four pairs, searched linearly.

use super::blocks::free_blocks;
use super::cell::{MapBody, Pair, SMALL, SMALL_MAX, free_storage, is_small, small_pairs};
use crate::abi::TVMFFIAny;
use crate::cells::any_hash;
use crate::cells::failure::Failure;

// SAFETY of the functions: as in `map`.

/// The index of the pair with this key.
pub(super) unsafe fn find_small(body: *mut MapBody, key: &TVMFFIAny) -> Result<Option<usize>, Failure> {
    // SAFETY: see above. The counts are read again for each pair: an equality hook may have changed
    // a dict.
    unsafe {
        let mut index = 0;
        while is_small(body) && index < (*body).cell.size as usize {
            if any_hash::equal(&(*(*body).cell.data.cast::<Pair>().add(index)).key, key)? {
                return Ok(Some(index));
            }
            index += 1;
        }
    }
    Ok(None)
}

/// Moves the pairs to a larger allocation.
pub(super) unsafe fn grow_small(body: *mut MapBody, slots: u64) {
    // SAFETY: see above; the pairs are moved as plain data.
    unsafe {
        let data = libc::malloc(slots as usize * size_of::<Pair>()).cast::<Pair>();
        if data.is_null() {
            std::alloc::handle_alloc_error(core::alloc::Layout::new::<[Pair; SMALL_MAX as usize]>());
        }
        let pairs = small_pairs(body);
        data.copy_from_nonoverlapping(pairs.as_ptr(), pairs.len());
        let old = ((*body).cell.data, (*body).cell.data_deleter);
        (*body).cell.data = data.cast();
        (*body).cell.data_deleter = Some(free_blocks);
        (*body).cell.slots = slots | SMALL;
        free_storage(old);
    }
}
