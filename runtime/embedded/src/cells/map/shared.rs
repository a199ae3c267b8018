//! Dicts that several threads may use at the same time: each function has [`Access`] to the dict
//! for one step, and returns owned values. Functions that only read also accept maps.
//!
//! Keys of some types have hooks for hash and equality, which are foreign code and must not be
//! called under the access. If one is needed, a function works on a copy of the entries, and
//! changes the dict if it still has the same entries afterwards.

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};

use super::cell::{MapBody, Pair, SMALL, SMALL_MAX, SMALL_MIN, body_of, is_small, switch_to};
use super::dense::{DenseTable, Entry};
use super::small::grow_small;
use super::{Entries, entry_at, insert, iter, next, take, take_entries};
use crate::cells::access::Access;
use crate::cells::any_hash;
use crate::cells::failure::Failure;
use crate::cells::list::shared::Contents;
use crate::cells::release::{release, release_elements, retain};

// SAFETY of all functions: the caller passes a live dict that stays alive for the call, owns the
// values that it passes, and has no access to the dict. Nothing that is called under the access
// runs code of others.

/// Number of entries at this moment.
///
/// # Safety
/// `map` is a live dict or map.
#[inline]
pub unsafe fn len(map: *mut TVMFFIObject) -> usize {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(map);
        super::len(map)
    }
}

/// Alternating keys and values at this moment.
///
/// # Safety
/// As for [`len`]; the map stays alive for `'a`.
#[inline]
pub unsafe fn contents<'a>(map: *mut TVMFFIObject) -> Contents<'a> {
    // SAFETY: see above; a map does not change while others refer to it.
    unsafe {
        if (*map).type_index != type_index::DICT {
            return Contents::of(iter(map).flat_map(|(key, value)| [key, value]).collect(), false);
        }
        let _access = Access::new(map);
        Contents::of(iter(map).flat_map(|(key, value)| [retain(&key), retain(&value)]).collect(), true)
    }
}

/// A copy at this moment, of the same type and with the same order; the caller owns the reference.
/// It does not call hooks.
///
/// # Safety
/// As for [`len`].
#[inline]
pub unsafe fn copy(map: *mut TVMFFIObject) -> *mut TVMFFIObject {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(map);
        super::copy(map)
    }
}

/// The value of `key`, owned.
///
/// # Errors
/// The key's hash or equality hook failed.
///
/// # Safety
/// As for [`len`]; `key` is a valid value or view, but no rvalue reference.
#[inline]
pub unsafe fn get(map: *mut TVMFFIObject, key: &TVMFFIAny) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    let get = || unsafe { Ok(super::get(map, key)?.map(|value| retain(&value))) };
    // SAFETY: see above. Nothing changes a map.
    unsafe {
        if (*map).type_index == type_index::DICT && !any_hash::has_hooks(key) {
            let _access = Access::new(map);
            return get();
        }
        if (*map).type_index != type_index::DICT {
            return get();
        }
        let entries = contents(map);
        Ok(position(&entries, key)?.map(|index| retain(&entries[index * 2 + 1])))
    }
}

/// The hash of a key; an error if a hook would have to compute it.
#[inline]
unsafe fn hash_without_hooks(key: &TVMFFIAny) -> Result<u64, Failure> {
    // SAFETY: the caller passes a valid key.
    unsafe {
        if any_hash::has_hooks(key) {
            return Err(Failure::internal("a hook would be called under the lock of a dict"));
        }
        any_hash::hash(key)
    }
}

/// The index of the entry that has the key.
#[inline]
unsafe fn position(entries: &[TVMFFIAny], key: &TVMFFIAny) -> Result<Option<usize>, Failure> {
    for (index, entry) in entries.chunks_exact(2).enumerate() {
        // SAFETY: the caller passes valid values.
        if unsafe { any_hash::equal(key, &entry[0])? } {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Sets the value of `key`.
///
/// # Errors
/// The key's hash or equality hook failed; then nothing was changed and key and value are released.
///
/// # Safety
/// As for [`get`], of a dict; the ownership of `key` and `value` moves into it.
#[inline]
pub unsafe fn set(dict: *mut TVMFFIObject, key: TVMFFIAny, value: TVMFFIAny) -> Result<(), Failure> {
    // SAFETY: see above. Where the key has no hooks, only a dict that grows needs hooks, those of
    // its other keys, and nothing else fails.
    let done = unsafe {
        if any_hash::has_hooks(&key) {
            None
        } else {
            let _access = Access::new(dict);
            insert(body_of(dict), key, value, 0, hash_without_hooks).ok()
        }
    };
    // SAFETY: see above.
    unsafe {
        let done = match done {
            Some(old) => Ok(old),
            None => edit(dict, &key, true, |before, found, is_small| {
                let Some(index) = found else {
                    before.extend([key, value]);
                    return Some(None);
                };
                let old = core::mem::replace(&mut before[index * 2 + 1], value);
                if !is_small {
                    // As everywhere in the dense form, a key that is set again becomes the newest.
                    before[index * 2..].rotate_left(2);
                }
                Some(Some(old))
            })
            .map(Option::flatten),
        };
        match done {
            Ok(None) => Ok(()),
            Ok(Some(old)) => {
                release_elements([old, key]);
                Ok(())
            }
            Err(failure) => {
                release_elements([key, value]);
                Err(failure)
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
#[inline]
pub unsafe fn erase(dict: *mut TVMFFIObject, key: &TVMFFIAny) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    unsafe { erase_if(dict, key, |_| true) }
}

/// Removes `key` if its value still is `expected`; returns false if it is not present, or has
/// another value.
///
/// # Errors
/// As for [`erase`].
///
/// # Safety
/// As for [`erase`]; the caller owns a reference to `expected`.
#[inline]
pub unsafe fn erase_expected(dict: *mut TVMFFIObject, key: &TVMFFIAny, expected: &TVMFFIAny) -> Result<bool, Failure> {
    // SAFETY: see above; the dict's reference to the value is given up.
    unsafe {
        let old = erase_if(dict, key, |value| any_hash::is_identical(value, expected))?;
        Ok(old.map(|old| release(old)).is_some())
    }
}

#[inline]
unsafe fn erase_if(
    dict: *mut TVMFFIObject,
    key: &TVMFFIAny,
    is_it: impl Fn(&TVMFFIAny) -> bool,
) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    unsafe {
        let taken = if any_hash::has_hooks(key) {
            edit(dict, key, false, |before, found, _| {
                let index = found? * 2;
                is_it(&before[index + 1]).then(|| (before.remove(index), before.remove(index)))
            })?
        } else {
            let _access = Access::new(dict);
            match super::get(dict, key)? {
                Some(value) if is_it(&value) => take(body_of(dict), key)?,
                _ => None,
            }
        };
        Ok(taken.map(|(key, value)| {
            release(key);
            value
        }))
    }
}

/// Changes a dict some of whose keys have hooks, in the form that it would have without hooks.
/// `change` gets the entries as plain data, the index of the entry with the key, and whether the
/// form stays small; the caller owns the value that it returns, and `None` means no change. It may
/// be called more than once.
#[inline]
unsafe fn edit<T>(
    dict: *mut TVMFFIObject,
    key: &TVMFFIAny,
    adds: bool,
    change: impl Fn(&mut Vec<TVMFFIAny>, Option<usize>, bool) -> Option<T>,
) -> Result<Option<T>, Failure> {
    loop {
        // SAFETY: see above. The dict takes over the changed entries instead of its own, whose
        // references are the same.
        unsafe {
            let before = contents(dict);
            let stays_small = {
                let _access = Access::new(dict);
                stays_small(dict, adds)
            };
            let found = position(&before, key)?;
            let mut after = before.to_vec();
            let Some(result) = change(&mut after, found, stays_small) else { return Ok(None) };
            let mut entries: Vec<Entry> = Vec::with_capacity(after.len() / 2);
            for &[key, value] in after.as_chunks().0 {
                entries.push((key, value, if stays_small { 0 } else { any_hash::hash(&key)? }));
            }
            let _access = Access::new(dict);
            if is_unchanged(dict, &before) && stays_small == self::stays_small(dict, adds) {
                let body = body_of(dict);
                if stays_small {
                    set_small(body, &entries);
                } else {
                    switch_to(body, &DenseTable::build(&entries, (entries.len() as u64).max(SMALL_MAX)));
                }
                return Ok(Some(result));
            }
        }
    }
}

/// Returns true if the dict keeps the small form after a key is set (`adds`) or removed.
unsafe fn stays_small(dict: *mut TVMFFIObject, adds: bool) -> bool {
    // SAFETY: see above; the caller has access.
    unsafe {
        let body = body_of(dict);
        let slots = (*body).cell.slots & !SMALL;
        is_small(body) && !(adds && (*body).cell.size >= slots && slots >= SMALL_MAX)
    }
}

/// Writes the entries, at most one more than before, in the small form.
unsafe fn set_small(body: *mut MapBody, entries: &[Entry]) {
    // SAFETY: see above; the caller has access.
    unsafe {
        let slots = (*body).cell.slots & !SMALL;
        if entries.len() as u64 > slots {
            grow_small(body, (slots * 2).clamp(SMALL_MIN, SMALL_MAX));
        }
        let pairs = (*body).cell.data.cast::<Pair>();
        for (index, (key, value, _)) in entries.iter().enumerate() {
            pairs.add(index).write(Pair { key: *key, value: *value });
        }
        (*body).cell.size = entries.len() as u64;
    }
}

unsafe fn is_unchanged(dict: *mut TVMFFIObject, before: &[TVMFFIAny]) -> bool {
    // SAFETY: see above.
    let mut now = unsafe { Entries::new(body_of(dict)) }.flat_map(|(key, value)| [key, value]);
    before.iter().all(|value| now.next().is_some_and(|now| any_hash::is_identical(&now, value))) && now.next().is_none()
}

/// Removes all entries.
///
/// # Safety
/// As for [`set`].
#[inline]
pub unsafe fn clear(dict: *mut TVMFFIObject) {
    // SAFETY: see above.
    unsafe {
        let access = Access::new(dict);
        let taken = take_entries(body_of(dict));
        drop(access);
        release_elements(taken);
    }
}

/// Key and value at a position, owned, and the next position; `None` if there is no entry (any
/// more).
///
/// # Safety
/// As for [`len`]. The position may be any number.
#[inline]
pub unsafe fn entry(map: *mut TVMFFIObject, position: u64) -> Option<(TVMFFIAny, TVMFFIAny, u64)> {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(map);
        let (key, value) = entry_at(map, position)?;
        Some((retain(&key), retain(&value), next(map, position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::map::{first, new_dict, new_map};
    use crate::cells::{dec_ref, new_string};

    fn pairs(dict: *mut TVMFFIObject) -> Vec<(u64, u64)> {
        // SAFETY: the tests pass live dicts of integers.
        unsafe { contents(dict).chunks_exact(2).map(|entry| (entry[0].bits(), entry[1].bits())).collect() }
    }

    #[test]
    fn each_step_by_itself() {
        let int = TVMFFIAny::int;
        let dict = new_dict(Vec::new()).unwrap();
        // SAFETY: the test owns the dict.
        unsafe {
            for number in 0..10 {
                set(dict, int(number), int(number)).unwrap();
                set(dict, int(number), int(number * 2)).unwrap();
            }
            assert_eq!((len(dict), get(dict, &int(7)).unwrap().unwrap().bits()), (10, 14));
            assert!(get(dict, &new_string(b"7")).unwrap().is_none());
            assert_eq!(erase(dict, &int(7)).unwrap().unwrap().bits(), 14);
            assert!(erase(dict, &int(7)).unwrap().is_none());
            let (key, _, second) = entry(dict, first(dict)).unwrap();
            assert_eq!((key.bits(), entry(dict, second).unwrap().0.bits()), (0, 1));
            assert!(entry(dict, 1000).is_none());
            clear(dict);
            assert!(pairs(dict).is_empty());
            dec_ref(dict);
            let map = new_map(vec![(int(1), int(2))]).unwrap();
            assert_eq!(pairs(map), [(1, 2)]);
            dec_ref(map);
        }
    }

    /// Tests the path for keys with hooks, using keys without hooks: it gives the same entries in
    /// the same order as the other path.
    #[test]
    fn entries_are_changed_outside() {
        let int = TVMFFIAny::int;
        // SAFETY: the test owns the dicts.
        unsafe {
            let set_outside = |dict, key: i64, value: i64| {
                let old = edit(dict, &int(key), true, |entries, found, is_small| {
                    let Some(index) = found else {
                        entries.extend([int(key), int(value)]);
                        return Some(None);
                    };
                    let old = core::mem::replace(&mut entries[index * 2 + 1], int(value));
                    if !is_small {
                        entries[index * 2..].rotate_left(2);
                    }
                    Some(Some(old))
                });
                assert!(old.unwrap().is_some());
            };
            let erase_outside = |dict, key: i64| {
                let erased = edit(dict, &int(key), false, |entries, found, _| {
                    let index = found? * 2;
                    Some((entries.remove(index), entries.remove(index)))
                });
                erased.unwrap().is_some()
            };
            for count in [0, 1, 2, 3, 4, 5, 9, 40] {
                let entries = || (0..count).map(|number| (int(number), int(-number))).collect();
                let (left, right) = (new_dict(entries()).unwrap(), new_dict(entries()).unwrap());
                let steps = [0, 100, 2, 101, 0, 102, 103, 1, 104].into_iter().chain(0..count);
                for key in steps.clone() {
                    set_outside(left, key, key + 1000);
                    set(right, int(key), int(key + 1000)).unwrap();
                    assert_eq!(pairs(left), pairs(right), "{count} entries, key {key}");
                    assert_eq!(get(left, &int(key)).unwrap().unwrap().bits(), key as u64 + 1000);
                    assert_eq!(is_small(body_of(left)), is_small(body_of(right)));
                }
                for key in steps.chain([7]) {
                    assert_eq!(erase_outside(left, key), erase(right, &int(key)).unwrap().is_some());
                    assert_eq!(pairs(left), pairs(right));
                }
                // Down to an empty dict, and up again.
                assert!(pairs(left).is_empty() && !erase_outside(left, 1));
                for key in 0..20 {
                    set(left, int(key), int(key)).unwrap();
                }
                assert_eq!((pairs(left).len(), get(left, &int(19)).unwrap().unwrap().bits()), (20, 19));
                let empty = new_dict(Vec::new()).unwrap();
                assert!(!erase_outside(empty, 1));
                set(empty, int(1), int(2)).unwrap();
                assert_eq!(pairs(empty), [(1, 2)]);
                assert!(
                    !erase_expected(empty, &int(1), &int(3)).unwrap()
                        && erase_expected(empty, &int(1), &int(2)).unwrap()
                );
                for dict in [left, right, empty] {
                    dec_ref(dict);
                }
            }
        }
    }

    #[test]
    fn many_threads() {
        const ROUNDS: i64 = if cfg!(miri) { 20 } else { 2000 };
        let dict = new_dict(Vec::new()).unwrap();
        let address = dict.expose_provenance();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let dict = core::ptr::with_exposed_provenance_mut::<TVMFFIObject>(address);
                    let value = new_string(b"a value that is an object");
                    for round in 0..ROUNDS {
                        let key = TVMFFIAny::int(round % 16 + thread * 8);
                        // SAFETY: the dict outlives the threads; each value that is passed is
                        // owned.
                        unsafe {
                            set(dict, key, retain(&value)).unwrap();
                            get(dict, &key).unwrap().into_iter().for_each(|value| release(value));
                            assert!(contents(dict).len() <= 2 * 40);
                            erase(dict, &key).unwrap().into_iter().for_each(|value| release(value));
                        }
                    }
                    // SAFETY: the thread owns it.
                    unsafe { release(value) };
                });
            }
        });
        // SAFETY: the test owns the dict.
        unsafe { dec_ref(dict) };
    }
}
