//! The dense form of maps: an open-addressing table whose chains are linked by one byte a slot.
//!
//! Slots lie in blocks of 16: first 16 metadata bytes, then 16 items. A slot's byte says that it is empty, or whether it
//! is the head of a chain and how far away the chain goes on (an index into [`JUMPS`]). A chain holds the keys of one
//! home slot; an element that sits on a foreign home slot is moved away when that slot is needed. Items also form a
//! doubly linked list in the order of insertion. C++ code reads and writes all of this inline.

use core::ffi::c_void;

use crate::abi::TVMFFIAny;

use crate::cells::any_hash;
use crate::cells::failure::Failure;

const BLOCK_SLOTS: u64 = 16;
const BLOCK_SIZE: usize = 16 + 16 * size_of::<Item>();
const EMPTY: u8 = 0xff;
const PROTECTED: u8 = 0xfe;
const TAIL: u8 = 0x80;
const JUMP_MASK: u8 = 0x7f;
/// No slot: the end of the insertion order.
pub(super) const NO_SLOT: u64 = u64::MAX;

/// Distances between neighbours in a chain: 0 (the end) to 15, triangular numbers, then about 2.25 times more each.
const JUMPS: [u64; 126] = {
    #[rustfmt::skip]
    let far = [
        8515, 19110, 42778, 96141, 216153, 486591, 1092981, 2458653, 5532801, 12442566, 27993903, 62983476,
        141717030, 318844378, 717352503, 1614057336, 3631522476, 8170957530, 18384510628, 41364789378,
        93070452520, 209408356380, 471168559170, 1060128894105, 2385289465695, 5366898840628, 12075518705635,
        27169915244790, 61132312065111, 137547689707000, 309482283181501, 696335127828753, 1566753995631385,
        3525196511162271, 7931691992677701, 17846306936293605, 40154190677507445, 90346928918121501,
        203280589587557251, 457381325854679626, 1029107982097042876, 2315492959180353330, 5209859154120846435,
    ];
    let mut jumps = [0; 126];
    let mut index = 0;
    while index < jumps.len() {
        jumps[index] = match index as u64 {
            near @ 0..16 => near,
            triangular @ 16..83 => (triangular - 10) * (triangular - 9) / 2,
            _ => far[index - 83],
        };
        index += 1;
    }
    jumps
};

/// A key, its value, and its neighbours in the order of insertion.
#[repr(C)]
pub(super) struct Item {
    pub(super) key: TVMFFIAny,
    pub(super) value: TVMFFIAny,
    previous: u64,
    next: u64,
}

/// A dense table by value: what the map's object holds, without the object.
#[derive(Clone, Copy)]
pub(super) struct DenseTable {
    pub(super) data: *mut u8,
    pub(super) size: u64,
    pub(super) slots: u64,
    pub(super) shift: u32,
    pub(super) head: u64,
    pub(super) tail: u64,
}

/// Where a key is, or where its chain ends.
pub(super) enum Search {
    /// The key's slot, and the slot before it in the chain.
    Found { slot: u64, previous: Option<u64> },
    /// The last slot of the key's chain, if there is a chain.
    Absent { end: Option<u64> },
}

/// A key, its value, and the key's hash.
pub(super) type Entry = (TVMFFIAny, TVMFFIAny, u64);

/// Blocks with undefined content.
fn allocate_blocks(blocks: usize) -> *mut u8 {
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

/// Slots and hash shift of a table for at least `capacity` entries.
fn size_for(capacity: u64) -> (u64, u32) {
    let bits = u64::BITS - capacity.leading_zeros();
    let (slots, shift) = (1 << bits, 64 - bits);
    if slots < capacity * 2 { (slots * 2, shift - 1) } else { (slots, shift) }
}

/// 64-bit words of metadata in a block.
const WORDS: u64 = BLOCK_SLOTS / 8;

/// Iterator over the items of a table; see [`DenseTable::items`].
pub(super) struct Items {
    data: *mut u8,
    /// The next word of metadata to look at.
    word: u64,
    words: u64,
    /// The highest bit of each byte of the last word whose slot is occupied and not handed out yet.
    occupied: u64,
}

impl Items {
    /// The highest bit of each byte that is neither [`EMPTY`] nor [`PROTECTED`]: they are the two whose bits but the lowest
    /// are all set.
    const fn occupied(word: u64) -> u64 {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let rest = (word | LOW) ^ u64::MAX;
        // The sum of a byte's lower bits and 127 carries into its highest bit when one of them is set.
        (((rest & (0x7f * LOW)) + 0x7f * LOW) | rest) & (0x80 * LOW)
    }
}

impl Iterator for Items {
    type Item = *mut Item;

    #[inline]
    fn next(&mut self) -> Option<*mut Item> {
        // SAFETY: the creator of the iterator promised a valid and unchanged table; the word and the item are within it.
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

// SAFETY of the methods: a table's `data` points to initialized blocks for `slots` slots, which no other code uses during
// the call; the metadata of a slot says whether its item is initialized, and chains and list only name such slots.
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

    /// A table of the entries, whose keys differ, in their order, for `capacity` entries; larger when they do not fit.
    pub(super) fn build(entries: &[Entry], capacity: u64) -> Self {
        let (mut slots, mut shift) = size_for(capacity);
        loop {
            let mut table = Self::new(slots, shift);
            // SAFETY: the table is new and ours.
            let complete = entries.iter().all(|entry| unsafe { table.append(entry) });
            if complete {
                return table;
            }
            // The entries were only copied as plain data; they are put into a larger table instead.
            // SAFETY: the blocks are ours.
            unsafe { free_blocks(table.data.cast()) };
            slots *= 2;
            shift -= 1;
        }
    }

    /// A second table with the same entries, copied as plain data.
    ///
    /// # Safety
    /// The table is valid. The caller sees to the ownership of the copied keys and values.
    pub(super) unsafe fn duplicate(&self) -> Self {
        let blocks = self.slots.div_ceil(BLOCK_SLOTS) as usize;
        let data = allocate_blocks(blocks);
        // SAFETY: both have this many blocks.
        unsafe { data.copy_from_nonoverlapping(self.data, blocks * BLOCK_SIZE) };
        Self { data, ..*self }
    }

    #[inline]
    unsafe fn meta(&self, slot: u64) -> *mut u8 {
        // SAFETY: the slot is below `slots`.
        unsafe { self.data.add((slot / BLOCK_SLOTS) as usize * BLOCK_SIZE + (slot % BLOCK_SLOTS) as usize) }
    }

    #[inline]
    unsafe fn item(&self, slot: u64) -> *mut Item {
        // SAFETY: the slot is below `slots`; blocks are aligned to 16 and their size is a multiple of 16.
        unsafe {
            let block = self.data.add((slot / BLOCK_SLOTS) as usize * BLOCK_SIZE);
            block.add(BLOCK_SLOTS as usize).cast::<Item>().add((slot % BLOCK_SLOTS) as usize)
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> u64 {
        11_400_714_819_323_198_485_u64.wrapping_mul(hash).wrapping_shr(self.shift)
    }

    /// The slot that is `distance` behind `slot`, past the end at the beginning. The number of slots is a power of two.
    #[inline]
    fn behind(&self, slot: u64, distance: u64) -> u64 {
        slot.wrapping_add(distance) & (self.slots - 1)
    }

    /// The next slot in the chain.
    #[inline]
    unsafe fn next_in_chain(&self, slot: u64) -> Option<u64> {
        // SAFETY: see the impl.
        let jump = unsafe { *self.meta(slot) } & JUMP_MASK;
        match JUMPS.get(usize::from(jump)) {
            None | Some(0) => None,
            Some(distance) => Some(self.behind(slot, *distance)),
        }
    }

    #[inline]
    unsafe fn set_jump(&self, slot: u64, jump: u8) {
        // SAFETY: see the impl.
        unsafe {
            let meta = self.meta(slot);
            *meta = (*meta & TAIL) | jump;
        }
    }

    #[inline]
    unsafe fn is_head(&self, slot: u64) -> bool {
        // SAFETY: see the impl.
        unsafe { *self.meta(slot) & TAIL == 0 }
    }

    /// The nearest empty slot that a chain can go on to from `slot`, except those `taken`, and the jump to it.
    unsafe fn next_empty(&self, slot: u64, taken: &[u64]) -> Option<(u8, u64)> {
        (1u8..).zip(&JUMPS[1..]).find_map(|(jump, distance)| {
            let candidate = self.behind(slot, *distance);
            // SAFETY: see the impl.
            let empty = unsafe { *self.meta(candidate) } == EMPTY;
            (empty && !taken.contains(&candidate)).then_some((jump, candidate))
        })
    }

    /// Looks a key up.
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

    /// Where a key and its value are, if they are there.
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

    /// All items, in the order in which they lie in memory.
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

    /// Adds an entry whose key is not in the table; false (and nothing changed) when there is no good place for it.
    ///
    /// # Safety
    /// The table is valid. `end` is what [`DenseTable::search`] found for this key.
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

    /// Inserts without looking for the key: the chain of this hash ends where no next slot is.
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

    /// The slot from which the chain goes to `slot`. Found by its jump, so that no key has to be hashed.
    unsafe fn previous_in_chain(&self, slot: u64) -> Option<u64> {
        (1u8..).zip(&JUMPS[1..]).find_map(|(jump, distance)| {
            let candidate = slot.wrapping_sub(*distance) % self.slots;
            // SAFETY: see the impl.
            let jumps_here = unsafe { *self.meta(candidate) } & JUMP_MASK == jump;
            jumps_here.then_some(candidate)
        })
    }

    /// Empties `target`, which a foreign chain goes through: moves that chain from `target` on to other slots. False (and
    /// nothing changed) when there are none.
    unsafe fn move_chain_away(&mut self, target: u64) -> bool {
        // SAFETY: see the impl. All slots are chosen before the first one is changed.
        unsafe {
            let Some(before) = self.previous_in_chain(target) else { return false };
            let mut moves: Vec<(u64, u8, u64)> = Vec::new();
            let (mut taken, mut from, mut end) = (Vec::new(), Some(target), before);
            while let Some(source) = from {
                let Some((jump, free)) = self.next_empty(end, &taken) else { return false };
                moves.push((source, jump, free));
                taken.push(free);
                from = self.next_in_chain(source);
                end = free;
            }
            let mut end = before;
            for (source, jump, free) in moves {
                *self.meta(free) = TAIL;
                self.item(free).copy_from_nonoverlapping(self.item(source), 1);
                self.take_place(source, free);
                *self.meta(source) = if source == target { PROTECTED } else { EMPTY };
                self.set_jump(end, jump);
                end = free;
            }
            true
        }
    }

    /// Removes the entry at `slot` and hands it out.
    ///
    /// # Safety
    /// The table is valid; `slot` and `previous` come from [`DenseTable::search`].
    pub(super) unsafe fn remove(&mut self, slot: u64, previous: Option<u64>) -> (TVMFFIAny, TVMFFIAny) {
        // SAFETY: promised by the caller. The chain's last element takes the place of the removed one.
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

    /// Sets the value of an existing entry, which becomes the newest, and hands out the old value.
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

    unsafe fn unlink(&mut self, slot: u64) {
        // SAFETY: see the impl.
        unsafe {
            let Item { previous, next, .. } = *self.item(slot);
            self.link(previous, next);
        }
    }

    unsafe fn push_back(&mut self, slot: u64) {
        // SAFETY: see the impl.
        unsafe {
            let tail = self.tail;
            self.link(tail, slot);
            self.link(slot, NO_SLOT);
        }
    }

    /// Lets the neighbours of `from` in the insertion order point to `to`, which has a copy of the item.
    unsafe fn take_place(&mut self, from: u64, to: u64) {
        // SAFETY: see the impl.
        unsafe {
            let Item { previous, next, .. } = *self.item(from);
            self.link(previous, to);
            self.link(to, next);
        }
    }

    /// Makes two slots neighbours in the insertion order; [`NO_SLOT`] stands for its ends.
    unsafe fn link(&mut self, previous: u64, next: u64) {
        // SAFETY: see the impl.
        unsafe {
            match previous {
                NO_SLOT => self.head = next,
                slot => (*self.item(slot)).next = next,
            }
            match next {
                NO_SLOT => self.tail = previous,
                slot => (*self.item(slot)).previous = previous,
            }
        }
    }

    /// Whether `slot` is the number of a slot that has an entry.
    ///
    /// # Safety
    /// The table is valid.
    pub(super) unsafe fn has_entry(&self, slot: u64) -> bool {
        // SAFETY: promised by the caller; the slot is checked first.
        slot < self.slots && !matches!(unsafe { *self.meta(slot) }, EMPTY | PROTECTED)
    }

    /// The place of the value at `slot`.
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
