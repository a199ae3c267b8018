//! Chains of a dense table: the slots of the keys with one home slot, linked by one byte per slot.

use super::blocks::{EMPTY, JUMP_MASK, PROTECTED, TAIL};
use super::dense::DenseTable;

/// Distances between neighbours in a chain: 0 (the end) to 15, triangular numbers, then about 2.25
/// times more each.
pub(super) const JUMPS: [u64; 126] = {
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

// SAFETY of the methods: as in `dense`.
impl DenseTable {
    /// The slot that is `distance` after `slot`, wrapping around at the end. The number of slots is
    /// a power of two.
    #[inline]
    fn behind(&self, slot: u64, distance: u64) -> u64 {
        slot.wrapping_add(distance) & (self.slots - 1)
    }

    /// The next slot in the chain.
    #[inline]
    pub(super) unsafe fn next_in_chain(&self, slot: u64) -> Option<u64> {
        // SAFETY: see the impl.
        let jump = unsafe { *self.meta(slot) } & JUMP_MASK;
        match JUMPS.get(usize::from(jump)) {
            None | Some(0) => None,
            Some(distance) => Some(self.behind(slot, *distance)),
        }
    }

    #[inline]
    pub(super) unsafe fn set_jump(&self, slot: u64, jump: u8) {
        // SAFETY: see the impl.
        unsafe {
            let meta = self.meta(slot);
            *meta = (*meta & TAIL) | jump;
        }
    }

    #[inline]
    pub(super) unsafe fn is_head(&self, slot: u64) -> bool {
        // SAFETY: see the impl.
        unsafe { *self.meta(slot) & TAIL == 0 }
    }

    /// The nearest empty slot to which a chain can continue from `slot`, except those in `taken`,
    /// and the jump to it.
    pub(super) unsafe fn next_empty(&self, slot: u64, taken: &[u64]) -> Option<(u8, u64)> {
        (1u8..).zip(&JUMPS[1..]).find_map(|(jump, distance)| {
            let candidate = self.behind(slot, *distance);
            // SAFETY: see the impl.
            let empty = unsafe { *self.meta(candidate) } == EMPTY;
            (empty && !taken.contains(&candidate)).then_some((jump, candidate))
        })
    }

    /// The slot from which the chain continues to `slot`. It is found by its jump, so that no key
    /// has to be hashed.
    unsafe fn previous_in_chain(&self, slot: u64) -> Option<u64> {
        (1u8..).zip(&JUMPS[1..]).find_map(|(jump, distance)| {
            let candidate = slot.wrapping_sub(*distance) % self.slots;
            // SAFETY: see the impl.
            let jumps_here = unsafe { *self.meta(candidate) } & JUMP_MASK == jump;
            jumps_here.then_some(candidate)
        })
    }

    /// Empties `target`, which belongs to a foreign chain: moves that chain from `target` on to
    /// other slots. Returns false, and changes nothing, if there are none.
    pub(super) unsafe fn move_chain_away(&mut self, target: u64) -> bool {
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
}
