//! A set of pairs of addresses: open addressing, no allocation while it is empty.

/// A set of pairs of addresses, which are not 0.
#[derive(Default)]
pub(super) struct PairSet {
    /// The slots; their number is zero or a power of two. (0, 0) is a free slot.
    slots: Vec<(usize, usize)>,
    len: usize,
}

const FREE: (usize, usize) = (0, 0);
const FIRST_SLOTS: usize = 16;

impl PairSet {
    /// The slot at which the search for a pair begins.
    #[inline]
    const fn start(&self, pair: (usize, usize)) -> usize {
        let mixed = (pair.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (pair.1 as u64).rotate_left(20);
        (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as usize & (self.slots.len() - 1)
    }

    /// The slot of a pair, or the free slot for it. There always is a free slot.
    #[inline]
    fn find(&self, pair: (usize, usize)) -> usize {
        let mut at = self.start(pair);
        while self.slots[at] != pair && self.slots[at] != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline]
    pub(super) fn contains(&self, pair: (usize, usize)) -> bool {
        self.len > 0 && self.slots[self.find(pair)] == pair
    }

    #[inline]
    pub(super) fn insert(&mut self, pair: (usize, usize)) {
        // At most two thirds full.
        if self.len + self.len / 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.find(pair);
        self.len += usize::from(self.slots[at] == FREE);
        self.slots[at] = pair;
    }

    #[cold]
    #[inline]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FIRST_SLOTS);
        let old = core::mem::replace(&mut self.slots, vec![FREE; size]);
        for pair in old.into_iter().filter(|pair| *pair != FREE) {
            let at = self.find(pair);
            self.slots[at] = pair;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, pair: (usize, usize)) {
        if !self.contains(pair) {
            return;
        }
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut hole = self.find(pair);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let moved = self.slots[at];
            if moved == FREE {
                break;
            }
            // An entry moves into the hole if its search begins at the hole or before it.
            if (at.wrapping_sub(self.start(moved)) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = moved;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keeps_what_it_is_given_until_it_is_removed() {
        let mut set = PairSet::default();
        let mut expected = HashSet::new();
        let mut state = 1_u64;
        for _ in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pair = ((state >> 60) as usize * 8 + 8, (state >> 40 & 31) as usize * 8 + 8);
            assert_eq!(set.contains(pair), expected.contains(&pair));
            if state >> 33 & 1 == 0 {
                set.insert(pair);
                expected.insert(pair);
            } else {
                set.remove(pair);
                expected.remove(&pair);
            }
            assert_eq!(set.len, expected.len());
        }
    }
}
