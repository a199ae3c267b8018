//! Dicts that several threads may use at the same time: each function has [`Access`] to the dict for one step, and what it hands out is
//! owned. Those that only read take maps, too.
//!
//! Keys of some types have hooks for hash and equality, which are code of others and not called under the access. Where one is
//! needed, a function works on a copy of the entries, and changes the dict if it still has these entries afterwards.

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};

use super::cell::{body_of, switch_to};
use super::dense::{DenseTable, Entry};
use super::{Entries, entry_at, first, insert, iter, next, take, take_entries};
use crate::cells::access::Access;
use crate::cells::any_hash;
use crate::cells::failure::Failure;
use crate::cells::list::shared::Contents;
use crate::cells::release::{release, release_elements, retain};

// SAFETY of all functions: the caller passes a live dict that stays alive for the call, owns the values that it passes, and has no
// access to the dict. Nothing that is called under the access runs code of others.

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

/// Keys and values of this moment, in turn.
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

/// A copy of this moment, of the same type and with the same order; the caller owns the reference. It calls no hooks.
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

/// What a function does where a hook is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// It works on a copy of the entries, which takes time in proportion to their number.
    OnCopy,
    /// It works on the dict itself, without access: for callers in other languages, which by the ABI's contract see to it that the dict is in
    /// use on no other thread.
    InPlace,
}

/// The value of `key`, owned.
///
/// # Errors
/// The key's hash or equality hook failed.
///
/// # Safety
/// As for [`len`]; `key` is a valid value or view, but no rvalue reference. With [`Hooks::InPlace`], the dict is in use on no other thread.
#[inline]
pub unsafe fn get(map: *mut TVMFFIObject, key: &TVMFFIAny, hooks: Hooks) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    let get = || unsafe { Ok(super::get(map, key)?.map(|value| retain(&value))) };
    // SAFETY: see above. Nothing changes a map.
    unsafe {
        if (*map).type_index == type_index::DICT && !any_hash::has_hooks(key) {
            let _access = Access::new(map);
            return get();
        }
        if (*map).type_index != type_index::DICT || hooks == Hooks::InPlace {
            return get();
        }
        let entries = contents(map);
        Ok(position(&entries, key)?.map(|index| retain(&entries[index * 2 + 1])))
    }
}

/// The hash of a key; an error where a hook would say it.
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

/// Which entry has the key.
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
pub unsafe fn set(dict: *mut TVMFFIObject, key: TVMFFIAny, value: TVMFFIAny, hooks: Hooks) -> Result<(), Failure> {
    // SAFETY: see above. Where the key has no hooks, only a dict that grows needs hooks, those of its other keys, and nothing else fails.
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
            None if hooks == Hooks::InPlace => insert(body_of(dict), key, value, 0, any_hash::hash),
            None => edit(dict, &key, |entries, found| {
                let Some(index) = found else {
                    entries.extend([key, value]);
                    return None;
                };
                Some(core::mem::replace(&mut entries[index * 2 + 1], value))
            }),
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

/// Removes `key` and hands its value out; `None` when it was not there.
///
/// # Errors
/// The key's hash or equality hook failed; then nothing was changed.
///
/// # Safety
/// As for [`set`]; `key` stays the caller's.
#[inline]
pub unsafe fn erase(dict: *mut TVMFFIObject, key: &TVMFFIAny, hooks: Hooks) -> Result<Option<TVMFFIAny>, Failure> {
    // SAFETY: see above.
    unsafe {
        let taken = match any_hash::has_hooks(key) {
            false => {
                let _access = Access::new(dict);
                take(body_of(dict), key)
            }?,
            true if hooks == Hooks::InPlace => take(body_of(dict), key)?,
            true => edit(dict, key, |entries, found| {
                let index = found? * 2;
                Some((entries.remove(index), entries.remove(index)))
            })?,
        };
        Ok(taken.map(|(key, value)| {
            release(key);
            value
        }))
    }
}

/// Changes a dict of whose keys some have hooks. `change` gets the entries, plain data, and which of them has the key; what it hands out, the
/// caller owns. It may be called more than once.
#[inline]
unsafe fn edit<T>(
    dict: *mut TVMFFIObject,
    key: &TVMFFIAny,
    change: impl Fn(&mut Vec<TVMFFIAny>, Option<usize>) -> T,
) -> Result<T, Failure> {
    loop {
        // SAFETY: see above. The dict takes over the changed entries instead of its own, whose references are the same.
        unsafe {
            let before = contents(dict);
            let found = position(&before, key)?;
            let mut after = before.to_vec();
            let result = change(&mut after, found);
            let entries: Result<Vec<Entry>, Failure> =
                after.chunks_exact(2).map(|entry| Ok((entry[0], entry[1], any_hash::hash(&entry[0])?))).collect();
            let entries = entries?;
            let _access = Access::new(dict);
            if is_unchanged(dict, &before) {
                switch_to(body_of(dict), &DenseTable::build(&entries, entries.len() as u64));
                return Ok(result);
            }
        }
    }
}

#[inline]
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

/// The position of the first entry, or [`END`](super::END).
///
/// # Safety
/// As for [`len`].
#[inline]
pub unsafe fn first_position(map: *mut TVMFFIObject) -> u64 {
    // SAFETY: see above.
    unsafe {
        let _access = Access::new(map);
        first(map)
    }
}

/// Key and value at a position, owned, and the position after it; `None` when there is no entry (any more).
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
    use crate::cells::map::{new_dict, new_map};
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
                set(dict, int(number), int(number), Hooks::OnCopy).unwrap();
                set(dict, int(number), int(number * 2), Hooks::OnCopy).unwrap();
            }
            assert_eq!((len(dict), get(dict, &int(7), Hooks::OnCopy).unwrap().unwrap().bits()), (10, 14));
            assert!(get(dict, &new_string(b"7"), Hooks::OnCopy).unwrap().is_none());
            assert_eq!(erase(dict, &int(7), Hooks::OnCopy).unwrap().unwrap().bits(), 14);
            assert!(erase(dict, &int(7), Hooks::OnCopy).unwrap().is_none());
            let (key, _, second) = entry(dict, first_position(dict)).unwrap();
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

    /// The way of keys with hooks, by keys that have none.
    #[test]
    fn entries_are_changed_outside() {
        let int = TVMFFIAny::int;
        for count in [1, 4, 9] {
            let dict = new_dict((0..count).map(|number| (int(number), int(-number))).collect()).unwrap();
            // SAFETY: the test owns the dict.
            unsafe {
                edit(dict, &int(0), |entries, found| entries[found.unwrap() * 2 + 1] = int(5)).unwrap();
                edit(dict, &int(100), |entries, found| {
                    assert!(found.is_none());
                    entries.extend([int(100), int(6)]);
                })
                .unwrap();
                assert_eq!(
                    (get(dict, &int(0), Hooks::OnCopy).unwrap().unwrap().bits(), len(dict)),
                    (5, count as usize + 1)
                );
                edit(dict, &int(0), |entries, _| drop(entries.drain(..2))).unwrap();
                assert!(get(dict, &int(0), Hooks::OnCopy).unwrap().is_none());
                set(dict, int(0), int(7), Hooks::OnCopy).unwrap();
                assert_eq!(pairs(dict).last(), Some(&(0, 7)));
                dec_ref(dict);
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
                        // SAFETY: the dict outlives the threads; each value that is passed is owned.
                        unsafe {
                            set(dict, key, retain(&value), Hooks::OnCopy).unwrap();
                            get(dict, &key, Hooks::OnCopy).unwrap().into_iter().for_each(|value| release(value));
                            assert!(contents(dict).len() <= 2 * 40);
                            erase(dict, &key, Hooks::OnCopy).unwrap().into_iter().for_each(|value| release(value));
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
