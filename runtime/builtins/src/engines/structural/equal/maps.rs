//! Maps: entries are matched by their keys, variable keys by their counterparts.

use core::ptr;

use super::{Comparer, Parts, Step};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::{map, release};
use crate::engines::access_path::Kind;
use crate::engines::structural::leaf::leaves_equal;
use crate::walker::address_map::AddressMap;
use crate::walker::field_value::Read;
use crate::walker::frozen::Frozen;
use crate::walker::stack::Frame;

// SAFETY of all unsafe blocks below: as in the parent module.

impl Comparer {
    /// Continues with the entries of the top frame.
    pub(super) unsafe fn compare_entries(&mut self) -> Result<Step> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: see above.
            unsafe {
                let Frame { state: frame, .. } = &mut self.frames[top];
                let Parts::Entries { maps, next, current, right_key } = &mut frame.parts else {
                    return Ok(Step::Done);
                };
                let [left_map, right_map] = maps.each_ref().map(Frozen::get);
                let Some((key, value)) = map::entry_at(left_map, *next) else {
                    return self.compare_map_sizes(top);
                };
                *current = *next;
                *next = map::next(left_map, *next);
                let mapped = map_key(&self.to_right, &key);
                *right_key = if mapped.bits() == key.bits() { ptr::null_mut() } else { mapped.payload.v_obj };
                let region = frame.region;
                let held = may_call_hooks(&mapped).then(|| self.hold(&[key, value, mapped]));
                let Some(other) = map::get(right_map, &mapped)? else {
                    if let Some(trace) = &mut self.trace {
                        trace.entry((Kind::MapItem, &key), (Kind::MapItemMissing, &mapped));
                    }
                    return Ok(Step::Different);
                };
                let step = match leaves_equal(&value, &other) {
                    Some(true) => None,
                    Some(false) => Some(self.differ(top)?),
                    None => {
                        let owned = held.is_some();
                        let parts = [value, other].map(|value| {
                            let value = if owned { release::retain(&value) } else { value };
                            Read { value, owned }
                        });
                        self.compare_parts(top, parts, region)?
                    }
                };
                drop(held);
                if let Some(step) = step {
                    return Ok(step);
                }
            }
        }
    }

    /// Compares the lengths of two maps when the right one has all keys of the left one, with equal
    /// values.
    unsafe fn compare_map_sizes(&mut self, top: usize) -> Result<Step> {
        let Parts::Entries { maps, .. } = &self.frames[top].state.parts else { return Ok(Step::Done) };
        let [left, right] = maps.each_ref().map(Frozen::get);
        // SAFETY: see above.
        unsafe {
            if map::len(left) == map::len(right) {
                return Ok(Step::Done);
            }
            let mut position = map::first(right);
            while let Some((key, _)) = map::entry_at(right, position) {
                position = map::next(right, position);
                let mapped = map_key(&self.to_left, &key);
                let _held = may_call_hooks(&mapped).then(|| self.hold(&[key, mapped]));
                if map::get(left, &mapped)?.is_none() {
                    if let Some(trace) = &mut self.trace {
                        trace.entry((Kind::MapItemMissing, &mapped), (Kind::MapItem, &key));
                    }
                    break;
                }
            }
        }
        Ok(Step::Different)
    }
}

/// The key that corresponds to a key on the other side.
unsafe fn map_key(to_other: &AddressMap, key: &TVMFFIAny) -> TVMFFIAny {
    if key.type_index < type_index::STATIC_OBJECT_BEGIN {
        return *key;
    }
    // SAFETY: the map keeps its entries alive.
    unsafe {
        match to_other.get(key.payload.v_obj) {
            None => *key,
            Some(other) => {
                let other: *mut TVMFFIObject = ptr::with_exposed_provenance_mut(other as usize);
                TVMFFIAny::pointer((*other).type_index, other.cast())
            }
        }
    }
}

/// Returns true if the hash or equality of a map key may call a hook.
const fn may_call_hooks(key: &TVMFFIAny) -> bool {
    key.type_index >= type_index::DYN_OBJECT_BEGIN
}
