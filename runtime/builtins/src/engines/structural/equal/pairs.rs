//! Pairs of shared objects that were found equal.
//!
//! A graph with shared parts has as many paths as a tree of exponential size. Parts that are
//! reached by two paths, on either side, are compared only once.

use std::collections::HashSet;

use crate::abi::TVMFFIObject;
use crate::embedded;
use crate::walker::address_map::AddressMap;
use crate::walker::field_value::Read;

/// Pairs by address. Its owner keeps the objects alive as long as the set.
#[derive(Default)]
pub(super) struct EqualPairs {
    /// The first partner of each object on the left: nearly always the only one.
    first: AddressMap,
    /// Further partners.
    others: HashSet<(usize, usize)>,
}

impl EqualPairs {
    /// Returns true if one of two objects has another reference than the one through which it was
    /// reached. A pair that occurs again is below such a pair: all paths from there down may be the
    /// same on the other side.
    pub(super) fn is_shared(left: &Read, right: &Read) -> bool {
        [left, right].into_iter().any(|part| {
            // SAFETY: a frame, which the values come from, keeps both alive.
            let references = unsafe { embedded::strong_count(part.value.payload.v_obj) };
            references > 1 + u32::from(part.owned)
        })
    }

    /// Returns true if two objects were found equal.
    #[inline]
    pub(super) fn contains(&self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) -> bool {
        match self.first.get(left) {
            None => false,
            Some(known) => {
                known == right.addr() as u64
                    || !self.others.is_empty() && self.others.contains(&(left.addr(), right.addr()))
            }
        }
    }

    /// Records two objects that are equal.
    pub(super) fn insert(&mut self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) {
        match self.first.get(left) {
            None => {
                self.first.insert(left, right.expose_provenance() as u64);
            }
            Some(_) => {
                self.others.insert((left.expose_provenance(), right.expose_provenance()));
            }
        }
    }

    /// The addresses of all objects, with exposed provenance; some occur more than once.
    pub(super) fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.first.iter().flat_map(|(left, right)| [left, right as usize]);
        first.chain(self.others.iter().flat_map(|(left, right)| [*left, *right]))
    }
}
