//! A traversal's plans for values of a type, cached for the types that it met last.

use core::sync::atomic::{AtomicU64, Ordering};

use super::links::{Link, Links};

/// The plan for a type: its index, the number of its callback plus 1, and its default way; packed
/// in one word, so that hooks on any thread can look it up.
#[derive(Clone, Copy)]
pub(super) struct Plan(u64);

/// A default way to traverse values of a type; [`LEAF`] and numbers below 256 that visitors and
/// mutators choose.
pub(super) type Way = u8;

/// The way for values that have no children.
pub(super) const LEAF: Way = 0;

/// The plans for the types that were met last.
pub(super) struct Plans([AtomicU64; SLOTS]);

const SLOTS: usize = 8;

impl Plans {
    /// Creates an empty cache.
    pub(super) const fn new() -> Self {
        // No value has this type.
        Self([const { AtomicU64::new(Plan::new(i32::MIN, 0, LEAF).0) }; SLOTS])
    }

    /// The plan for a type; `way_of` finds its default way.
    #[inline]
    pub(super) fn get(&self, type_index: i32, links: &Links, way_of: fn(i32) -> Way) -> Plan {
        let slot = &self.0[type_index as usize % SLOTS];
        let plan = Plan(slot.load(Ordering::Relaxed));
        if plan.type_index() == type_index { plan } else { make(slot, type_index, links, way_of) }
    }
}

#[cold]
#[inline(never)]
fn make(slot: &AtomicU64, type_index: i32, links: &Links, way_of: fn(i32) -> Way) -> Plan {
    let plan = Plan::new(type_index, links.find(type_index).map_or(0, |number| number as u32 + 1), way_of(type_index));
    slot.store(plan.0, Ordering::Relaxed);
    plan
}

impl Plan {
    const fn new(type_index: i32, link: u32, way: Way) -> Self {
        Self((type_index as u32 as u64) << 32 | (link as u64) << 8 | way as u64)
    }

    const fn type_index(self) -> i32 {
        (self.0 >> 32) as i32
    }

    /// Returns true if there is nothing to do: neither a callback nor children.
    #[inline]
    pub(super) const fn is_quiet(self) -> bool {
        self.0 as u32 == 0
    }

    /// The default way.
    #[inline]
    pub(super) const fn way(self) -> Way {
        self.0 as u8
    }

    /// The callback.
    #[inline]
    pub(super) fn link(self, links: &Links) -> Option<&Link> {
        links.get((self.0 as u32 as usize >> 8).wrapping_sub(1))
    }

    /// The callbacks for before and after the children, if there are both kinds.
    pub(super) fn pair(self, links: &Links) -> [Option<&Link>; 2] {
        links.pair(self.0 as u32 as usize >> 8)
    }
}
