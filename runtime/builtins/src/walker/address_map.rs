//! A hash map from addresses to words: open addressing, no allocation while it is empty.

/// A map from addresses, which are not 0, to words.
#[derive(Default)]
pub(crate) struct AddressMap {
    /// The slots; their number is zero or a power of two. A key of 0 is a free slot.
    slots: Vec<(usize, u64)>,
    len: usize,
}

const FIRST_SLOTS: usize = 16;
const FEW_SLOTS: usize = 1 << 17;

impl AddressMap {
    /// The slot at which the search for an address begins. Neighbours in memory are often looked up
    /// one after the other, so they are neighbours here, too.
    #[inline]
    const fn start(&self, key: usize) -> usize {
        let group = (key as u64 >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (group as usize * 8 + (key >> 6 & 7)) & (self.slots.len() - 1)
    }

    /// The slot of a key, or the free slot for it. There always is a free slot.
    #[inline]
    fn find(&self, key: usize) -> usize {
        let mut at = self.start(key);
        loop {
            let found = self.slots[at].0;
            if found == key || found == 0 {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The word of an address.
    #[inline]
    pub(crate) fn get<T>(&self, key: *const T) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let (found, value) = self.slots[self.find(key.addr())];
        (found != 0).then_some(value)
    }

    /// Sets the word of an address, and returns the previous one.
    #[inline]
    pub(crate) fn insert<T>(&mut self, key: *const T, value: u64) -> Option<u64> {
        // At most two thirds full.
        if self.len + self.len / 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.find(key.addr());
        let slot = &mut self.slots[at];
        if slot.0 != 0 {
            return Some(core::mem::replace(&mut slot.1, value));
        }
        *slot = (key.expose_provenance(), value);
        self.len += 1;
        None
    }

    #[cold]
    fn grow(&mut self) {
        // Small maps grow faster, because each step costs as much as all steps before.
        let factor = if self.slots.len() < FEW_SLOTS { 4 } else { 2 };
        let size = (self.slots.len() * factor).max(FIRST_SLOTS);
        let old = core::mem::replace(&mut self.slots, vec![(0, 0); size]);
        for slot in old.into_iter().filter(|slot| slot.0 != 0) {
            let at = self.find(slot.0);
            self.slots[at] = slot;
        }
    }

    /// All addresses, whose provenance is exposed, and their words.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.slots.iter().copied().filter(|slot| slot.0 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn keeps_what_it_is_given() {
        let mut map = AddressMap::default();
        let mut expected = HashMap::new();
        let mut state = 7_u64;
        for round in 0..20_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = ((state >> 50) as usize + 1) * 8;
            let pointer: *const u8 = core::ptr::without_provenance(key);
            assert_eq!(map.get(pointer), expected.get(&key).copied());
            assert_eq!(map.insert(pointer, round), expected.insert(key, round));
        }
        assert_eq!(map.iter().collect::<HashMap<_, _>>(), expected);
    }
}
