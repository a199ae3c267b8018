//! Maps and dicts: hash maps that keep the order of insertion, in the layout that C++ code reads
//! and writes inline.
//!
//! The *small* form has up to four pairs, which are searched linearly. Setting a key in a map of
//! four pairs converts it to the *dense* form (`dense`), even if the key is already present. Both
//! use the cell that `cell` describes.
//!
//! Keys and values passed to these functions are owned and move into the map; returned ones are
//! owned too, unless the documentation says "borrowed". Iteration is in the order of insertion; in
//! the dense form, setting a key again makes it the newest.
//!
//! ```
//! use kernpack::sys::abi::TVMFFIAny;
//! use kernpack::sys::embedded::{dec_ref, map, new_string};
//! let dict = map::new_dict(vec![(new_string(b"one"), TVMFFIAny::int(1))]).unwrap();
//! // SAFETY: the dict is ours until `dec_ref`.
//! unsafe {
//!     map::set(dict, new_string(b"two"), TVMFFIAny::int(2)).unwrap();
//!     assert_eq!(map::get(dict, &new_string(b"two")).unwrap().unwrap().bits(), 2);
//!     assert_eq!(map::iter(dict).count(), 2);
//!     dec_ref(dict);
//! }
//! ```

mod blocks;
mod cell;
mod chain;
mod construction;
mod dense;
mod entries;
mod order;
pub mod shared;
mod small;

use crate::abi::{TVMFFIAny, TVMFFIObject};

use crate::cells::any_hash;
use crate::cells::failure::Failure;
use crate::cells::release::{release, release_elements};
use cell::{MapBody, Pair, SMALL, SMALL_MAX, SMALL_MIN, body_of, dense_table, is_small, small_pairs, store, switch_to};
pub use construction::{copy, new_dict, new_dict_of_views, new_map, new_map_of_moved, new_map_of_views};
use dense::{DenseTable, Entry, Search};
pub use entries::{END, Entries, entry_at, first, iter, next, value_at};
use small::{find_small, grow_small};

// SAFETY of the private functions: `body` belongs to a live map or dict that no other code uses
// during the call; `data` points to the storage that the ABI defines for its form.

/// All entries with their hashes, computed before the map changes.
unsafe fn hashed_entries(body: *mut MapBody, hash: Hash) -> Result<Vec<Entry>, Failure> {
    // SAFETY: see above.
    unsafe { Entries::new(body).map(|(key, value)| Ok((key, value, hash(&key)?))).collect() }
}

/// [`any_hash::hash`], or a function that rejects keys whose hash is foreign code.
type Hash = unsafe fn(&TVMFFIAny) -> Result<u64, Failure>;

/// Removes the keys and values and returns them; the caller owns them.
unsafe fn take_entries(body: *mut MapBody) -> Vec<TVMFFIAny> {
    // SAFETY: see above.
    unsafe {
        let taken = Entries::new(body).flat_map(|(key, value)| [key, value]).collect();
        if is_small(body) {
            (*body).cell.size = 0;
        } else {
            let mut table = dense_table(body);
            table.forget_entries();
            store(body, &table);
        }
        taken
    }
}

/// Number of entries.
///
/// # Safety
/// `map` is a live map or dict.
pub unsafe fn len(map: *mut TVMFFIObject) -> usize {
    // SAFETY: promised by the caller.
    unsafe { (*body_of(map)).cell.size as usize }
}

/// The value of `key`, borrowed from the map.
///
/// # Errors
/// The key's hash or equality hook failed.
///
/// # Safety
/// `map` is a live map or dict that does not change meanwhile, and `key` is a valid value or view,
/// but not an rvalue reference.
pub unsafe fn get(map: *mut TVMFFIObject, key: &TVMFFIAny) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        let body = body_of(map);
        if is_small(body) {
            return Ok(find_small(body, key)?.map(|index| small_pairs(body)[index].value));
        }
        if (*body).cell.size == 0 {
            return Ok(None);
        }
        Ok(dense_table(body).find(key, any_hash::hash(key)?)?.map(|item| (*item).value))
    }
}

/// The value of `key`, borrowed from the map.
///
/// # Errors
/// `KeyError`: the key is not present; or the key's hash or equality hook failed.
///
/// # Safety
/// As for [`get`].
pub unsafe fn at(map: *mut TVMFFIObject, key: &TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    // SAFETY: promised by the caller.
    match unsafe { get(map, key) }? {
        Some(value) => Ok(value),
        None => Err(Failure::new("KeyError", "key is not in Map")),
    }
}

/// Sets the value of `key`. A map (not a dict) must not be shared; copy it first if it is.
///
/// # Errors
/// The key's hash or equality hook failed; then nothing was changed and key and value are released.
///
/// # Safety
/// `map` is a live map or dict that no other code uses during the call; the ownership of `key` and
/// `value` moves into it.
pub unsafe fn set(map: *mut TVMFFIObject, key: TVMFFIAny, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe { set_expecting(map, key, value, 0) }
}

/// Like [`set`], for a map that will have about `expected` entries.
///
/// # Errors
/// As for [`set`].
///
/// # Safety
/// As for [`set`].
pub unsafe fn set_expecting(
    map: *mut TVMFFIObject,
    key: TVMFFIAny,
    value: TVMFFIAny,
    expected: u64,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller. The remaining value is released when the map is consistent
    // again.
    unsafe {
        match insert(body_of(map), key, value, expected, any_hash::hash) {
            Ok(None) => Ok(()),
            Ok(Some(old)) => {
                release(old);
                release(key);
                Ok(())
            }
            Err(failure) => {
                release(key);
                release(value);
                Err(failure)
            }
        }
    }
}

/// Returns the old value if the key was present; the given key is then unused.
unsafe fn insert(
    body: *mut MapBody,
    key: TVMFFIAny,
    value: TVMFFIAny,
    expected: u64,
    hash_of: Hash,
) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    unsafe {
        if !is_small(body) {
            return insert_dense(body, key, value, hash_of);
        }
        let slots = (*body).cell.slots & !SMALL;
        let full = (*body).cell.size >= slots;
        if full && slots >= SMALL_MAX {
            // Also for a key that is already present, as in C++.
            let entries = hashed_entries(body, hash_of)?;
            switch_to(body, &DenseTable::build(&entries, expected.max(entries.len() as u64)));
            return insert_dense(body, key, value, hash_of);
        }
        if let Some(index) = find_small(body, &key)? {
            let old = core::mem::replace(&mut small_pairs(body)[index].value, value);
            return Ok(Some(old));
        }
        if full {
            grow_small(body, (slots * 2).clamp(SMALL_MIN, SMALL_MAX));
        }
        (*body).cell.data.cast::<Pair>().add((*body).cell.size as usize).write(Pair { key, value });
        (*body).cell.size += 1;
    }
    Ok(None)
}

unsafe fn insert_dense(
    body: *mut MapBody,
    key: TVMFFIAny,
    value: TVMFFIAny,
    hash_of: Hash,
) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    unsafe {
        let hash = any_hash::hash(&key)?;
        let mut table = dense_table(body);
        match table.search(&key, hash)? {
            Search::Found { slot, .. } => {
                let old = table.renew(slot, value);
                store(body, &table);
                Ok(Some(old))
            }
            Search::Absent { end } => {
                let entry = (key, value, hash);
                if table.insert(&entry, end) {
                    store(body, &table);
                } else {
                    let mut entries = hashed_entries(body, hash_of)?;
                    entries.push(entry);
                    // For a power of two, `build` creates a table of twice as many slots.
                    switch_to(body, &DenseTable::build(&entries, table.slots.max(SMALL_MAX)));
                }
                Ok(None)
            }
        }
    }
}

/// Removes `key` and returns its value; `None` if it was not present.
///
/// # Errors
/// The key's hash or equality hook failed; then nothing was changed.
///
/// # Safety
/// As for [`set`]; `key` stays the caller's.
pub unsafe fn erase(map: *mut TVMFFIObject, key: &TVMFFIAny) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: promised by the caller. The removed key is released when the map is consistent again.
    unsafe {
        Ok(take(body_of(map), key)?.map(|(key, value)| {
            release(key);
            value
        }))
    }
}

/// Removes the entry of `key` and returns its key and value; the caller owns them.
unsafe fn take(body: *mut MapBody, key: &TVMFFIAny) -> Result<Option<(TVMFFIAny, TVMFFIAny)>, Failure> {
    // SAFETY: see above.
    unsafe {
        if is_small(body) {
            let Some(index) = find_small(body, key)? else { return Ok(None) };
            let pairs = small_pairs(body);
            let removed = pairs[index];
            pairs.copy_within(index + 1.., index);
            (*body).cell.size -= 1;
            return Ok(Some((removed.key, removed.value)));
        }
        if (*body).cell.size == 0 {
            return Ok(None);
        }
        let mut table = dense_table(body);
        let found = table.search(key, any_hash::hash(key)?)?;
        let Search::Found { slot, previous } = found else { return Ok(None) };
        let removed = table.remove(slot, previous);
        store(body, &table);
        Ok(Some(removed))
    }
}

/// Removes all entries.
///
/// # Safety
/// As for [`set`].
pub unsafe fn clear(map: *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    unsafe { release_elements(take_entries(body_of(map))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::type_index;
    use crate::cells::dec_ref;
    use crate::cells::{inc_ref, new_string, new_string_object, strong_count};

    /// A map and, as a model, a plain list of its entries, in order.
    struct Model {
        map: *mut TVMFFIObject,
        expected: Vec<(i64, i64)>,
    }

    impl Model {
        fn set(&mut self, key: i64, value: i64) {
            // SAFETY: the map is ours.
            unsafe {
                set(self.map, TVMFFIAny::int(key), TVMFFIAny::int(value)).unwrap();
                let small = is_small(body_of(self.map));
                match self.expected.iter().position(|(k, _)| *k == key) {
                    Some(index) if small => self.expected[index].1 = value,
                    Some(index) => {
                        self.expected.remove(index);
                        self.expected.push((key, value));
                    }
                    None => self.expected.push((key, value)),
                }
            }
        }

        fn erase(&mut self, key: i64) {
            let index = self.expected.iter().position(|(k, _)| *k == key);
            let expected = index.map(|index| self.expected.remove(index).1 as u64);
            // SAFETY: the map is ours.
            let erased = unsafe { erase(self.map, &TVMFFIAny::int(key)).unwrap() };
            assert_eq!(erased.map(|value| value.bits()), expected);
        }

        fn check(&self) {
            // SAFETY: the map is ours and not changed.
            unsafe {
                let entries: Vec<_> = iter(self.map).map(|(k, v)| (k.bits() as i64, v.bits() as i64)).collect();
                assert_eq!(entries, self.expected);
                assert_eq!(len(self.map), self.expected.len());
                for (key, value) in &self.expected {
                    let found = get(self.map, &TVMFFIAny::int(*key)).unwrap();
                    assert_eq!(found.unwrap().bits() as i64, *value);
                }
                assert!(get(self.map, &TVMFFIAny::int(-1)).unwrap().is_none());
            }
        }
    }

    #[test]
    fn random_operations_match_a_list() {
        let mut state = 12345u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for (keys, steps) in [(3, 200), (6, 400), (40, 3000), (2000, 20000)] {
            let mut model = Model { map: new_map(vec![]).unwrap(), expected: vec![] };
            for step in 0..steps {
                // Multiples of a power of two collide often.
                let key = (random(keys) << (random(2) * 7)) as i64;
                if random(3) == 0 {
                    model.erase(key)
                } else {
                    model.set(key, step)
                }
                if keys < 100 || step % 1000 == 0 {
                    model.check();
                }
            }
            model.check();
            // SAFETY: the maps are ours.
            unsafe {
                let copied = Model { map: copy(model.map), expected: model.expected.clone() };
                copied.check();
                dec_ref(copied.map);
                clear(model.map);
                model.expected.clear();
                model.check();
                model.set(1, 2);
                model.check();
                dec_ref(model.map);
            }
        }
    }

    #[test]
    fn forms_and_creation() {
        for count in 0..9 {
            let pairs = (0..count).map(|i| (TVMFFIAny::int(i), TVMFFIAny::int(i * i))).collect();
            let map = new_map(pairs).unwrap();
            let model = Model { map, expected: (0..count).map(|i| (i, i * i)).collect() };
            model.check();
            // SAFETY: the map is ours.
            unsafe {
                assert_eq!(is_small(body_of(map)), count < 4, "{count}");
                dec_ref(map);
            }
        }
        let twice = vec![(TVMFFIAny::int(1), TVMFFIAny::int(2)), (TVMFFIAny::int(1), TVMFFIAny::int(3))];
        let model = Model { map: new_dict(twice).unwrap(), expected: vec![(1, 3)] };
        model.check();
        // SAFETY: the map is ours.
        unsafe {
            assert_eq!((*model.map).type_index, type_index::DICT);
            dec_ref(model.map);
        }
    }

    #[test]
    fn references_are_owned() {
        let object = new_string_object(b"shared value");
        let value = TVMFFIAny::pointer(type_index::STR, object.cast());
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            let map = new_map(vec![]).unwrap();
            for key in 0..20u8 {
                inc_ref(object);
                set(map, new_string(&[b'k'; 10][..key as usize % 10]), value).unwrap();
            }
            assert_eq!((len(map), strong_count(object)), (10, 11));
            release(erase(map, &new_string(b"kk")).unwrap().unwrap());
            assert_eq!(strong_count(object), 10);
            let copied = copy(map);
            assert_eq!(strong_count(object), 19);
            dec_ref(map);
            dec_ref(copied);
            assert_eq!(strong_count(object), 1);
            dec_ref(object);
        }
    }
}
