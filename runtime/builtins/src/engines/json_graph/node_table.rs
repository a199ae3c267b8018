//! The map from values to the numbers of their nodes.

use crate::Result;
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::any_hash;
use kernpack_core::reflect::AttrColumn;

static HASH_HOOKS: AttrColumn = AttrColumn::new("__any_hash__");
static EQUAL_HOOKS: AttrColumn = AttrColumn::new("__any_equal__");

/// The nodes' values, compared like keys of a map: numbers and texts by content, objects by address
/// or by the hooks of their type.
#[derive(Default)]
pub(super) struct NodeTable {
    values: Vec<TVMFFIAny>,
    /// The slots; their number is zero or a power of two. Each has some bits of the hash, and the
    /// index plus one; 0 is a free slot.
    slots: Vec<(u32, u32)>,
}

const FIRST_SLOTS: usize = 16;

/// Returns true if the lookup of this value may call a hook.
#[inline]
pub(super) fn may_call_hooks(value: &TVMFFIAny) -> bool {
    value.type_index > type_index::BYTES
        && (HASH_HOOKS.get(value.type_index).is_some() || EQUAL_HOOKS.get(value.type_index).is_some())
}

/// The hash of a value, for the methods of the table.
///
/// # Safety
/// The value is valid and alive.
#[inline]
pub(super) unsafe fn hash(value: &TVMFFIAny) -> Result<u32> {
    // SAFETY: promised by the caller.
    let hash = unsafe { any_hash::hash(value) }?;
    Ok((hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

impl NodeTable {
    /// The index of the node with this value.
    ///
    /// # Safety
    /// The value and those in the table are alive.
    #[inline]
    pub(super) unsafe fn find(&self, hash: u32, value: &TVMFFIAny) -> Result<Option<i64>> {
        if self.slots.is_empty() {
            return Ok(None);
        }
        let mut at = hash as usize & (self.slots.len() - 1);
        loop {
            let (found, index) = self.slots[at];
            if index == 0 {
                return Ok(None);
            }
            // SAFETY: promised by the caller.
            if found == hash && unsafe { any_hash::equal(&self.values[index as usize - 1], value) }? {
                return Ok(Some(i64::from(index) - 1));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a node, and returns its index.
    #[inline]
    pub(super) fn add(&mut self, hash: u32, value: TVMFFIAny) -> i64 {
        let index = self.values.len();
        // At most two thirds full.
        if index + index / 2 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(FIRST_SLOTS);
            let mut old: Vec<_> = core::mem::replace(&mut self.slots, vec![(0, 0); size]);
            // Of equal values the first one is found.
            old.sort_unstable_by_key(|slot| slot.1);
            for slot in old.into_iter().filter(|slot| slot.1 != 0) {
                self.place(slot);
            }
        }
        self.values.push(value);
        self.place((hash, index as u32 + 1));
        index as i64
    }

    #[inline]
    fn place(&mut self, slot: (u32, u32)) {
        let mut at = slot.0 as usize & (self.slots.len() - 1);
        while self.slots[at].1 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }

    /// The addresses of the objects among the values, with exposed provenance.
    #[inline]
    pub(super) fn objects(&self) -> impl Iterator<Item = usize> + '_ {
        let is_object = |value: &&TVMFFIAny| value.type_index >= type_index::STATIC_OBJECT_BEGIN;
        // SAFETY: the payload of an object.
        self.values.iter().filter(is_object).map(|value| unsafe { value.payload.v_ptr }.expose_provenance())
    }
}
