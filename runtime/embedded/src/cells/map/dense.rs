//! The dense form of maps: an open-addressing table whose chains are linked by one byte per slot.
//!
//! Slots are stored in blocks of 16 (`blocks`). A chain holds the keys of one home slot; an element
//! that occupies a foreign home slot is moved away when that slot is needed (`chain`). Items also
//! form a doubly linked list in the order of insertion (`order`). C++ code reads and writes all of
//! this inline.

use super::blocks::{
    BLOCK_SIZE, BLOCK_SLOTS, EMPTY, Item, Items, NO_SLOT, PROTECTED, TAIL, WORDS, allocate_blocks, free_blocks,
};
use crate::abi::TVMFFIAny;

use crate::cells::any_hash;
use crate::cells::failure::Failure;

/// A dense table by value: the fields of the map's object, without the object.
#[derive(Clone, Copy)]
pub(super) struct DenseTable {
    pub(super) data: *mut u8,
    pub(super) size: u64,
    pub(super) slots: u64,
    pub(super) shift: u32,
    pub(super) head: u64,
    pub(super) tail: u64,
}

/// The result of a search: the place of a key, or the end of its chain.
pub(super) enum Search {
    /// The key's slot, and the slot before it in the chain.
    Found { slot: u64, previous: Option<u64> },
    /// The last slot of the key's chain, if there is a chain.
    Absent { end: Option<u64> },
}

/// A key, its value, and the key's hash.
pub(super) type Entry = (TVMFFIAny, TVMFFIAny, u64);

/// Slots and hash shift of a table for at least `capacity` entries.
fn size_for(capacity: u64) -> (u64, u32) {
    // A shift by 64 would not shift.
    let capacity = capacity.max(1);
    let bits = u64::BITS - capacity.leading_zeros();
    let (slots, shift) = (1 << bits, 64 - bits);
    if slots < capacity * 2 { (slots * 2, shift - 1) } else { (slots, shift) }
}

// SAFETY of the methods: a table's `data` points to initialized blocks for `slots` slots, which no
// other code uses during the call; the metadata of a slot determines whether its item is
// initialized, and chains and the list only contain such slots.
impl DenseTable {
    fn new(slots: u64, shift: u32) -> Self {
        let blocks = slots.div_ceil(BLOCK_SLOTS) as usize;
        let data = allocate_blocks(blocks);
        for block in 0..blocks {
            // SAFETY: the block is within the allocation.
            unsafe { data.add(block * BLOCK_SIZE).write_bytes(EMPTY, BLOCK_SLOTS as usize) };
        }
        Self { data, size: 0, slots, shift, head: NO_SLOT, tail: NO_SLOT }
    }

    /// An empty table for `capacity` entries.
    pub(super) fn with_capacity(capacity: u64) -> Self {
        let (slots, shift) = size_for(capacity);
        Self::new(slots, shift)
    }

    /// Builds a table of the entries, whose keys differ, in their order, for `capacity` entries;
    /// larger if they do not fit.
    pub(super) fn build(entries: &[Entry], capacity: u64) -> Self {
        let (mut slots, mut shift) = size_for(capacity);
        loop {
            let mut table = Self::new(slots, shift);
            // SAFETY: the table is new and ours.
            let complete = entries.iter().all(|entry| unsafe { table.append(entry) });
            if complete {
                return table;
            }
            // The entries were only copied as plain data; they are inserted into a larger table
            // instead.
            // SAFETY: the blocks are ours.
            unsafe { free_blocks(table.data.cast()) };
            slots *= 2;
            shift -= 1;
        }
    }

    /// Copies the table, with the entries as plain data.
    ///
    /// # Safety
    /// The table is valid. The caller handles the ownership of the copied keys and values.
    pub(super) unsafe fn duplicate(&self) -> Self {
        let blocks = self.slots.div_ceil(BLOCK_SLOTS) as usize;
        let data = allocate_blocks(blocks);
        // SAFETY: both have this many blocks.
        unsafe { data.copy_from_nonoverlapping(self.data, blocks * BLOCK_SIZE) };
        Self { data, ..*self }
    }

    #[inline]
    fn home(&self, hash: u64) -> u64 {
        11_400_714_819_323_198_485_u64.wrapping_mul(hash).wrapping_shr(self.shift)
    }

    /// Looks up a key.
    ///
    /// # Safety
    /// The table is valid (see the comment at the impl), and so are the keys.
    #[inline]
    pub(super) unsafe fn search(&self, key: &TVMFFIAny, hash: u64) -> Result<Search, Failure> {
        // SAFETY: promised by the caller.
        unsafe {
            if self.slots == 0 || !self.is_head(self.home(hash)) {
                return Ok(Search::Absent { end: None });
            }
            let (mut slot, mut previous) = (self.home(hash), None);
            loop {
                if any_hash::equal(key, &(*self.item(slot)).key)? {
                    return Ok(Search::Found { slot, previous });
                }
                match self.next_in_chain(slot) {
                    Some(next) => (previous, slot) = (Some(slot), next),
                    None => return Ok(Search::Absent { end: Some(slot) }),
                }
            }
        }
    }

    /// Returns the address of a key's entry, if the key is present.
    ///
    /// # Safety
    /// As for [`DenseTable::search`].
    #[inline]
    pub(super) unsafe fn find(&self, key: &TVMFFIAny, hash: u64) -> Result<Option<*mut Item>, Failure> {
        if self.slots == 0 {
            return Ok(None);
        }
        // SAFETY: promised by the caller.
        unsafe {
            let mut slot = self.home(hash);
            if !self.is_head(slot) {
                return Ok(None);
            }
            loop {
                let item = self.item(slot);
                if any_hash::equal(key, &(*item).key)? {
                    return Ok(Some(item));
                }
                match self.next_in_chain(slot) {
                    Some(next) => slot = next,
                    None => return Ok(None),
                }
            }
        }
    }

    /// All items, in memory order.
    ///
    /// # Safety
    /// The table is valid, and not changed while the iterator is used.
    pub(super) unsafe fn items(&self) -> Items {
        let words = self.slots.div_ceil(BLOCK_SLOTS) * WORDS;
        Items { data: self.data, word: 0, words, occupied: 0 }
    }

    #[inline]
    fn is_full(&self) -> bool {
        (self.size + 1) as f64 > self.slots as f64 * 0.99
    }

    /// Adds an entry whose key is not in the table; returns false, and changes nothing, if there is
    /// no suitable slot for it.
    ///
    /// # Safety
    /// The table is valid. `end` is the result of [`DenseTable::search`] for this key.
    pub(super) unsafe fn insert(&mut self, entry: &Entry, end: Option<u64>) -> bool {
        if self.slots == 0 {
            return false;
        }
        // SAFETY: promised by the caller.
        unsafe {
            let Some(end) = end else {
                let home = self.home(entry.2);
                if *self.meta(home) != EMPTY && (self.is_full() || !self.move_chain_away(home)) {
                    return false;
                }
                self.fill(home, 0, entry);
                return true;
            };
            if self.is_full() {
                return false;
            }
            let Some((jump, slot)) = self.next_empty(end, &[]) else { return false };
            self.fill(slot, TAIL, entry);
            self.set_jump(end, jump);
        }
        true
    }

    /// Inserts without searching for the key, at the end of the chain of this hash.
    unsafe fn append(&mut self, entry: &Entry) -> bool {
        // SAFETY: see the impl.
        unsafe {
            let home = self.home(entry.2);
            let mut end = self.is_head(home).then_some(home);
            while let Some(next) = end.and_then(|slot| self.next_in_chain(slot)) {
                end = Some(next);
            }
            self.insert(entry, end)
        }
    }

    unsafe fn fill(&mut self, slot: u64, meta: u8, (key, value, _): &Entry) {
        // SAFETY: the slot is empty or was emptied by the caller.
        unsafe {
            *self.meta(slot) = meta;
            self.item(slot).write(Item { key: *key, value: *value, previous: NO_SLOT, next: NO_SLOT });
            self.size += 1;
            self.push_back(slot);
        }
    }

    /// Removes the entry at `slot` and returns it.
    ///
    /// # Safety
    /// The table is valid; `slot` and `previous` come from [`DenseTable::search`].
    pub(super) unsafe fn remove(&mut self, slot: u64, previous: Option<u64>) -> (TVMFFIAny, TVMFFIAny) {
        // SAFETY: promised by the caller. The chain's last element takes the place of the removed
        // one.
        unsafe {
            let removed = ((*self.item(slot)).key, (*self.item(slot)).value);
            self.size -= 1;
            self.unlink(slot);
            let (mut last, mut before_last) = (slot, previous);
            while let Some(next) = self.next_in_chain(last) {
                (before_last, last) = (Some(last), next);
            }
            if last != slot {
                self.item(slot).copy_from_nonoverlapping(self.item(last), 1);
                self.take_place(last, slot);
            }
            *self.meta(last) = EMPTY;
            if let Some(before_last) = before_last {
                self.set_jump(before_last, 0);
            }
            removed
        }
    }

    /// Sets the value of an existing entry, which becomes the newest, and returns the old value.
    ///
    /// # Safety
    /// The table is valid; `slot` comes from [`DenseTable::search`].
    pub(super) unsafe fn renew(&mut self, slot: u64, value: TVMFFIAny) -> TVMFFIAny {
        // SAFETY: promised by the caller.
        unsafe {
            let old = core::mem::replace(&mut (*self.item(slot)).value, value);
            self.unlink(slot);
            self.push_back(slot);
            old
        }
    }

    /// Marks all slots as empty; the entries belong to another table now.
    ///
    /// # Safety
    /// The table is valid.
    pub(super) unsafe fn forget_entries(&mut self) {
        for slot in 0..self.slots {
            // SAFETY: promised by the caller.
            unsafe { *self.meta(slot) = EMPTY };
        }
        (self.size, self.head, self.tail) = (0, NO_SLOT, NO_SLOT);
    }

    /// Returns true if `slot` is the number of a slot that has an entry.
    ///
    /// # Safety
    /// The table is valid.
    pub(super) unsafe fn has_entry(&self, slot: u64) -> bool {
        // SAFETY: promised by the caller; the slot is checked first.
        slot < self.slots && !matches!(unsafe { *self.meta(slot) }, EMPTY | PROTECTED)
    }

    /// The address of the value at `slot`.
    ///
    /// # Safety
    /// As for [`DenseTable::entry`].
    pub(super) unsafe fn value(&self, slot: u64) -> *mut TVMFFIAny {
        // SAFETY: promised by the caller.
        unsafe { &raw mut (*self.item(slot)).value }
    }

    /// The entry at `slot` and the slot of the next one.
    ///
    /// # Safety
    /// The table is valid and has an entry at `slot`.
    #[inline]
    pub(super) unsafe fn entry(&self, slot: u64) -> (TVMFFIAny, TVMFFIAny, u64) {
        // SAFETY: promised by the caller.
        unsafe {
            let item = self.item(slot);
            ((*item).key, (*item).value, (*item).next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::map::chain::JUMPS;

    #[test]
    fn table_sizes() {
        for (capacity, slots, shift) in
            [(4, 8, 61), (5, 16, 60), (8, 16, 60), (9, 32, 59), (16, 32, 59), (100, 256, 56)]
        {
            assert_eq!(size_for(capacity), (slots, shift), "{capacity}");
        }
        assert_eq!((JUMPS[15], JUMPS[16], JUMPS[82], JUMPS[83]), (15, 21, 2628, 8515));
        assert_eq!(BLOCK_SIZE, 784);
    }
}
