//! Pairs of shared objects that a comparison has found equal.
//!
//! A graph with shared parts has as many paths as a tree of exponential size. Parts that are
//! reached by two paths are compared only once.

use super::pair_set::PairSet;
use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::walker::field_value::Read;
use crate::walker::held_objects::HeldObjects;

/// Pairs in the order in which they were found, so that the last ones can be removed again.
#[derive(Default)]
pub(super) struct FoundEqual {
    set: PairSet,
    order: Vec<(usize, usize)>,
    /// Keeps the objects alive.
    held: HeldObjects,
}

impl FoundEqual {
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub(super) fn contains(&self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) -> bool {
        self.set.contains((left.addr(), right.addr()))
    }

    /// Records two objects that are equal, if one of them has another reference than the one
    /// through which it was reached. A pair that occurs again is below such a pair: all paths from
    /// there down may be the same on the other side.
    ///
    /// # Safety
    /// Both are alive, and kept alive by the object that they were read from or by a reference of
    /// the caller.
    #[inline]
    pub(super) unsafe fn note(&mut self, parts: [Read; 2]) {
        // SAFETY: promised by the caller.
        unsafe {
            let objects = parts.map(|part| part.value.payload.v_obj);
            let is_shared = |at: usize| embedded::strong_count(objects[at]) > 1 + u32::from(parts[at].owned);
            if !is_shared(0) && !is_shared(1) {
                if !self.order.is_empty() {
                    parts.iter().for_each(|part| self.held.keep_made(*part));
                }
                return;
            }
            let pair: (usize, usize) = objects.map(|object| object.expose_provenance()).into();
            if self.set.contains(pair) {
                return;
            }
            if parts.iter().any(|part| part.owned) {
                // A getter created them: nothing that the operation knows keeps them alive.
                self.before_hook();
            }
            parts.iter().for_each(|part| self.held.keep(Read { owned: false, ..*part }));
            self.set.insert(pair);
            self.order.push(pair);
        }
    }

    /// Removes the pairs recorded after the first `len` ones.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        self.order.drain(len..).for_each(|pair| self.set.remove(pair));
    }

    /// Called before the first hook runs: takes references to all objects, which were kept alive by
    /// their parents so far.
    ///
    /// # Safety
    /// No hook has run since the first pair was noted, or this was called before it.
    pub(super) unsafe fn before_hook(&mut self) {
        // SAFETY: promised by the caller: the objects are alive.
        unsafe { self.held.before_hook(self.order.iter().flat_map(|pair| [pair.0, pair.1])) };
    }
}
