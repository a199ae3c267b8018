//! Functions of maps and dicts.

use core::sync::atomic::{AtomicU64, Ordering};

use super::values;
use crate::abi::{TVMFFIMapCell, TVMFFIObject, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::functor::functor;
use crate::definition::signature::{ANY, DICT_OBJECT, DICT_OF_ANY, FUNCTION, INT, MAP_OBJECT, Signature, VOID};
use crate::embedded::access::Access;
use crate::embedded::map::shared;
use crate::embedded::release::{release, retain};
use crate::embedded::{self, map};
use crate::value::{Any, IntoAny};
use crate::{Result, error};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.Map",
        signature: Signature::Packed,
        run: |args| {
            check_pairs(args)?;
            // SAFETY: the caller's views are valid for the call.
            unsafe { Ok(Any::from_object(map::new_map_of_views(args.raw())?)) }
        },
    },
    Builtin { name: "ffi.MapSize", signature: Signature::Typed(&[&MAP_OBJECT], &INT), run: size },
    Builtin { name: "ffi.MapGetItem", signature: Signature::Typed(&[&MAP_OBJECT, &ANY], &ANY), run: get_item },
    Builtin { name: "ffi.MapCount", signature: Signature::Typed(&[&MAP_OBJECT, &ANY], &INT), run: count },
    Builtin { name: "ffi.MapForwardIterFunctor", signature: Signature::Typed(&[&MAP_OBJECT], &FUNCTION), run: iterate },
    Builtin {
        name: "ffi.MapGetItemOrMissing",
        signature: Signature::Typed(&[&MAP_OBJECT, &ANY], &ANY),
        run: get_item_or_missing,
    },
    Builtin {
        name: "ffi.Dict",
        signature: Signature::Packed,
        run: |args| {
            check_pairs(args)?;
            // SAFETY: the caller's views are valid for the call.
            unsafe { Ok(Any::from_object(map::new_dict_of_views(args.raw())?)) }
        },
    },
    Builtin { name: "ffi.DictSize", signature: Signature::Typed(&[&DICT_OBJECT], &INT), run: size },
    Builtin { name: "ffi.DictGetItem", signature: Signature::Typed(&[&DICT_OBJECT, &ANY], &ANY), run: get_item },
    Builtin {
        name: "ffi.DictSetItem",
        signature: Signature::Typed(&[&DICT_OF_ANY, &ANY, &ANY], &VOID),
        run: |args| {
            let (value, key) = (args.owned(2)?, args.owned(1)?);
            if let Some(dict) = dict(args) {
                // SAFETY: the argument is a dict; key and value move into it.
                unsafe { shared::set(dict, key.into_raw(), value.into_raw())? };
            }
            Ok(Any::NONE)
        },
    },
    Builtin { name: "ffi.DictCount", signature: Signature::Typed(&[&DICT_OBJECT, &ANY], &INT), run: count },
    Builtin {
        name: "ffi.DictErase",
        signature: Signature::Typed(&[&DICT_OF_ANY, &ANY], &VOID),
        run: |args| {
            let key = args.lookup(1)?;
            if let Some(dict) = dict(args) {
                // SAFETY: the argument is a dict; the value that was in it is ours.
                unsafe { shared::erase(dict, &key)?.into_iter().for_each(|value| release(value)) };
            }
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.DictClear",
        signature: Signature::Typed(&[&DICT_OF_ANY], &VOID),
        run: |args| {
            if let Some(dict) = dict(args) {
                // SAFETY: the argument is a dict.
                unsafe { shared::clear(dict) };
            }
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.DictForwardIterFunctor",
        signature: Signature::Typed(&[&DICT_OBJECT], &FUNCTION),
        run: iterate,
    },
    Builtin {
        name: "ffi.DictGetItemOrMissing",
        signature: Signature::Typed(&[&DICT_OBJECT, &ANY], &ANY),
        run: get_item_or_missing,
    },
];

/// The bit of `slots` that marks the small form, whose positions are 0, 1, 2, ...
const SMALL: u64 = 1 << 63;

/// Checks that keys and values alternate.
#[inline]
fn check_pairs(args: &Arguments<'_>) -> Result<()> {
    match args.all().len() % 2 {
        0 => Ok(()),
        rest => Err(error!(InternalError, "Check failed: args.size() % 2 == 0 ({rest} vs. 0) : ")),
    }
}

/// An argument of type [`DICT_OF_ANY`]; `None` for a map, which would be converted, so that only a
/// copy would be changed.
#[inline]
fn dict(args: &Arguments<'_>) -> Option<*mut TVMFFIObject> {
    let object = args.object(0);
    // SAFETY: the argument is a dict or a map that the caller keeps alive.
    (unsafe { (*object).type_index } == type_index::DICT).then_some(object)
}

#[inline]
fn size(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the first argument is a map or a dict.
    Ok(unsafe { shared::len(args.object(0)) }.into_any())
}

#[inline]
fn get_item(args: &Arguments<'_>) -> Result<Any> {
    let key = args.lookup(1)?;
    // SAFETY: the first argument is a map or a dict.
    match unsafe { shared::get(args.object(0), &key) }? {
        // SAFETY: the value is owned.
        Some(value) => Ok(unsafe { Any::from_raw(value) }),
        None => Err(error!(KeyError, "key is not in Map")),
    }
}

#[inline]
fn get_item_or_missing(args: &Arguments<'_>) -> Result<Any> {
    let key = args.lookup(1)?;
    // SAFETY: as in `get_item`.
    unsafe {
        match shared::get(args.object(0), &key)? {
            Some(value) => Ok(Any::from_raw(value)),
            None => Ok(values::missing()),
        }
    }
}

#[inline]
fn count(args: &Arguments<'_>) -> Result<Any> {
    let key = args.lookup(1)?;
    // SAFETY: the first argument is a map or a dict.
    let found = unsafe { shared::get(args.object(0), &key)? };
    // SAFETY: the value is owned.
    Ok(i64::from(found.map(|value| unsafe { Any::from_raw(value) }).is_some()).into_any())
}

#[inline]
fn iterate(args: &Arguments<'_>) -> Result<Any> {
    let map = args.owned(0)?;
    let object = map.as_view().object().unwrap_or(core::ptr::null_mut());
    // SAFETY: the argument is a map or a dict, which the walk keeps alive.
    unsafe {
        let access = Access::new(object);
        let cell = embedded::body::<TVMFFIMapCell>(object);
        let first = map::first(object);
        let state = Iteration {
            object,
            can_change: (*object).type_index == type_index::DICT,
            end: if cell.slots & SMALL != 0 { cell.size } else { map::END },
            position: AtomicU64::new(first),
            following: AtomicU64::new(map::next(object, first)),
            _map: map,
        };
        drop(access);
        Ok(functor(state, Iteration::step))
    }
}

/// A walk through a map's entries. A dict may change meanwhile: entries may then be left out, and
/// the walk may end early.
struct Iteration {
    object: *mut TVMFFIObject,
    can_change: bool,
    /// The position at which the iteration ends in a small map: entries that are added later are
    /// skipped.
    end: u64,
    position: AtomicU64,
    /// The position that followed the entry when the walk reached it: the place to continue at if
    /// the entry is gone.
    following: AtomicU64,
    _map: Any,
}

// SAFETY: the object is kept alive by a value that may be sent and shared, too.
unsafe impl Send for Iteration {}
// SAFETY: as above.
unsafe impl Sync for Iteration {}

impl Iteration {
    /// 0: the key; 1: the value; any other number: advances to the next entry, and returns whether
    /// there is one.
    #[inline]
    fn step(&self, command: i64) -> Result<Any> {
        let position = self.position.load(Ordering::Relaxed);
        // SAFETY: the map is alive; positions may be any numbers. No foreign code runs during the
        // access.
        let part = unsafe {
            let _access = Access::new(self.object);
            match command {
                0 => map::entry_at(self.object, position).map(|(key, _)| retain(&key)),
                1 => map::entry_at(self.object, position).map(|(_, value)| retain(&value)),
                _ => return Ok(self.go_on(position).into_any()),
            }
        };
        // SAFETY: the part is owned.
        part.map(|part| unsafe { Any::from_raw(part) })
            .ok_or_else(|| error!(IndexError, "the iteration is over, or its entry was removed"))
    }

    /// # Safety
    /// The map is alive.
    #[inline]
    unsafe fn go_on(&self, position: u64) -> bool {
        // SAFETY: promised by the caller; positions may be any numbers.
        unsafe {
            let mut next = map::next(self.object, position);
            if self.can_change {
                if next == map::END && map::entry_at(self.object, position).is_none() {
                    next = self.following.load(Ordering::Relaxed);
                    if map::entry_at(self.object, next).is_none() {
                        next = map::END;
                    }
                }
                self.following.store(map::next(self.object, next), Ordering::Relaxed);
            }
            if next == self.end {
                next = map::END;
            }
            self.position.store(next, Ordering::Relaxed);
            next != map::END
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Function;
    use crate::value::{Any, IntoAny};

    fn call(function: &str, arguments: &[Any]) -> Any {
        let arguments: Vec<_> = arguments.iter().map(|value| *value.as_view()).collect();
        Function::global(function).unwrap().call(&arguments[..]).unwrap()
    }

    /// A dict of 0 to `count`, each mapped to itself.
    fn dict(count: i64) -> Any {
        call("ffi.Dict", &(0..count).flat_map(|key| [key.into_any(), key.into_any()]).collect::<Vec<_>>())
    }

    fn set(dict: &Any, key: i64) {
        call("ffi.DictSetItem", &[dict.clone(), key.into_any(), 0.into_any()]);
    }

    /// The keys that a walk through a dict visits, if the dict is changed at each of them.
    fn walk(dict: &Any, change: impl Fn(i64)) -> Vec<i64> {
        let step: Function = call("ffi.DictForwardIterFunctor", std::slice::from_ref(dict)).to().unwrap();
        let mut keys = Vec::new();
        while keys.len() < 100 {
            keys.push(step.call_as((0,)).unwrap());
            change(keys[keys.len() - 1]);
            if !step.call_as::<bool>((2,)).unwrap() {
                break;
            }
        }
        keys
    }

    #[test]
    fn dicts_may_change_during_a_walk() {
        for count in 1..40 {
            let all: Vec<i64> = (0..count).collect();
            assert_eq!(walk(&dict(count), |_| {}), all);
            // Whatever changes are made, a walk only visits present keys, and ends.
            let changed = dict(count);
            let erase = |key: i64| _ = call("ffi.DictErase", &[changed.clone(), key.into_any()]);
            let erased = walk(&changed, erase);
            assert!(erased.iter().all(|key| all.contains(key)), "{erased:?}");
            let changed = dict(count);
            let cleared = walk(&changed, |_| _ = call("ffi.DictClear", std::slice::from_ref(&changed)));
            assert_eq!(cleared, [0]);
            let changed = dict(count);
            let grown = walk(&changed, |key| set(&changed, key + 1000));
            assert!(grown.len() <= 100);
            let changed = dict(count);
            let renewed = walk(&changed, |key| set(&changed, key));
            assert!(renewed.iter().all(|key| all.contains(key)), "{renewed:?}");
        }
    }

    #[test]
    fn a_walk_is_over_at_the_end() {
        let step: Function = call("ffi.DictForwardIterFunctor", &[dict(1)]).to().unwrap();
        assert!(!step.call_as::<bool>((2,)).unwrap());
        assert!(!step.call_as::<bool>((2,)).unwrap());
        let error = step.call((0,)).unwrap_err();
        assert_eq!(error.to_string(), "IndexError: the iteration is over, or its entry was removed");
        let error = step.call(("x",)).unwrap_err();
        assert_eq!(
            error.message(),
            "Mismatched type on argument #0 when calling: `(0: int) -> Any`. Expected `int` but got `ffi.SmallStr`"
        );
    }

    #[test]
    fn keys_and_values_come_in_turn() {
        for function in ["ffi.Map", "ffi.Dict"] {
            let error = Function::global(function).unwrap().call((1,)).unwrap_err();
            assert_eq!(error.to_string(), "InternalError: Check failed: args.size() % 2 == 0 (1 vs. 0) : ");
        }
    }

    #[test]
    fn a_missing_value_is_one_object() {
        let missing = call("ffi.GetInvalidObject", &[]);
        let got = call("ffi.MapGetItemOrMissing", &[call("ffi.Map", &[]), 1.into_any()]);
        assert_eq!(got.as_view().object(), missing.as_view().object());
        assert_ne!(call("ffi.GetKwargsObject", &[]).as_view().object(), missing.as_view().object());
    }

    #[test]
    fn a_map_given_for_a_dict_stays_as_it_is() {
        let map = call("ffi.Map", &[1.into_any(), 2.into_any()]);
        call("ffi.DictSetItem", &[map.clone(), 3.into_any(), 4.into_any()]);
        call("ffi.DictErase", &[map.clone(), 1.into_any()]);
        call("ffi.DictClear", std::slice::from_ref(&map));
        assert_eq!(call("ffi.MapSize", &[map]).to::<i64>().unwrap(), 1);
    }

    /// Integers that do not fit into 64 bits are objects whose type has its own hash and equality
    /// functions.
    #[test]
    fn keys_with_functions_of_their_own() {
        let dict = kernpack_core::Dict::<u64, i64>::new();
        assert_eq!(dict.remove(&u64::MAX).unwrap(), None);
        dict.insert(1, 1).unwrap();
        for round in 0..2 {
            for number in 0..10 {
                dict.insert(u64::MAX - number, round).unwrap();
                dict.insert(number, round).unwrap();
            }
            assert_eq!((dict.len(), dict.get(&u64::MAX).unwrap(), dict.at(&9).unwrap()), (20, Some(round), round));
            for number in 0..10 {
                assert_eq!(dict.remove(&(u64::MAX - number)).unwrap(), Some(round));
                assert_eq!(dict.remove(&number).unwrap(), Some(round));
            }
            assert!(dict.is_empty() && dict.remove(&u64::MAX).unwrap().is_none());
        }
    }
}
