//! The memory of a dense table: slots in blocks of 16, first 16 metadata bytes, then 16 items.
//!
//! A slot's byte encodes that it is empty, or whether it is the head of a chain, and the distance
//! to the next slot of the chain (`chain`).

use core::ffi::c_void;

use super::dense::DenseTable;
use crate::abi::TVMFFIAny;

pub(super) const BLOCK_SLOTS: u64 = 16;
pub(super) const BLOCK_SIZE: usize = 16 + 16 * size_of::<Item>();
pub(super) const EMPTY: u8 = 0xff;
pub(super) const PROTECTED: u8 = 0xfe;
pub(super) const TAIL: u8 = 0x80;
pub(super) const JUMP_MASK: u8 = 0x7f;
/// No slot: the end of the insertion order.
pub(super) const NO_SLOT: u64 = u64::MAX;

/// A key, its value, and its neighbours in the order of insertion.
#[repr(C)]
pub(super) struct Item {
    pub(super) key: TVMFFIAny,
    pub(super) value: TVMFFIAny,
    pub(super) previous: u64,
    pub(super) next: u64,
}

/// Allocates blocks with undefined content.
pub(super) fn allocate_blocks(blocks: usize) -> *mut u8 {
    // SAFETY: `malloc` may be called with any size.
    let data = unsafe { libc::malloc(blocks.saturating_mul(BLOCK_SIZE)) }.cast::<u8>();
    if data.is_null() {
        std::alloc::handle_alloc_error(core::alloc::Layout::new::<[u8; BLOCK_SIZE]>());
    }
    data
}

/// Frees a table's blocks; also called by C++ code.
pub(super) unsafe extern "C" fn free_blocks(data: *mut c_void) {
    // SAFETY: `allocate_blocks` allocated the blocks with `malloc`.
    unsafe { libc::free(data) }
}

/// 64-bit words of metadata in a block.
pub(super) const WORDS: u64 = BLOCK_SLOTS / 8;

/// Iterator over the items of a table; see [`DenseTable::items`].
pub(super) struct Items {
    pub(super) data: *mut u8,
    /// The index of the next word of metadata.
    pub(super) word: u64,
    pub(super) words: u64,
    /// The highest bit of each byte of the last word whose slot is occupied and not returned yet.
    pub(super) occupied: u64,
}

impl Items {
    /// The highest bit of each byte that is neither [`EMPTY`] nor [`PROTECTED`]: the only two bytes
    /// in which all bits except the lowest are set.
    const fn occupied(word: u64) -> u64 {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let rest = (word | LOW) ^ u64::MAX;
        // The sum of a byte's lower bits and 127 carries into its highest bit if one of them is
        // set.
        (((rest & (0x7f * LOW)) + 0x7f * LOW) | rest) & (0x80 * LOW)
    }
}

impl Iterator for Items {
    type Item = *mut Item;

    #[inline]
    fn next(&mut self) -> Option<*mut Item> {
        // SAFETY: the creator of the iterator promised a valid and unchanged table; the word and
        // the item are within it.
        unsafe {
            while self.occupied == 0 {
                if self.word == self.words {
                    return None;
                }
                let block = self.data.add((self.word / WORDS) as usize * BLOCK_SIZE);
                self.occupied = Self::occupied(block.cast::<u64>().add((self.word % WORDS) as usize).read().to_le());
                self.word += 1;
            }
            let slot = (self.word - 1) * 8 + u64::from(self.occupied.trailing_zeros() / 8);
            self.occupied &= self.occupied - 1;
            let block = self.data.add((slot / BLOCK_SLOTS) as usize * BLOCK_SIZE);
            Some(block.add(BLOCK_SLOTS as usize).cast::<Item>().add((slot % BLOCK_SLOTS) as usize))
        }
    }
}

// SAFETY of the methods: as in `dense`.
impl DenseTable {
    #[inline]
    pub(super) unsafe fn meta(&self, slot: u64) -> *mut u8 {
        // SAFETY: the slot is below `slots`.
        unsafe { self.data.add((slot / BLOCK_SLOTS) as usize * BLOCK_SIZE + (slot % BLOCK_SLOTS) as usize) }
    }

    #[inline]
    pub(super) unsafe fn item(&self, slot: u64) -> *mut Item {
        // SAFETY: the slot is below `slots`; blocks are aligned to 16 and their size is a multiple
        // of 16.
        unsafe {
            let block = self.data.add((slot / BLOCK_SLOTS) as usize * BLOCK_SIZE);
            block.add(BLOCK_SLOTS as usize).cast::<Item>().add((slot % BLOCK_SLOTS) as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupied_slots() {
        for bytes in [
            [0, 0x7f, 0x80, 0xff, 0xfe, 0xfd, 0x81, 1],
            [0xff; 8],
            [0xfe; 8],
            [0xfd, 0xff, 0, 0xfe, 0, 0xff, 0xfe, 0xfd],
        ] {
            let occupied = Items::occupied(u64::from_le_bytes(bytes)).to_le_bytes();
            for (byte, bit) in bytes.into_iter().zip(occupied) {
                assert_eq!(bit, if byte < PROTECTED { 0x80 } else { 0 }, "{bytes:x?}");
            }
        }
    }
}
