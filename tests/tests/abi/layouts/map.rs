//! Maps and dicts, and the hash and equality of their keys.

use kernpack::sys::abi::{TVMFFIAny, TVMFFIMapCell, TVMFFIObjectHandle};
use kernpack::sys::embedded::release::{release, retain};
use kernpack::sys::embedded::{any_hash, body, dec_ref, dec_weak, inc_ref, inc_weak, is_unique, map};
use proptest::prelude::*;

use super::check;
use super::cpp::{Containers, containers, raised};
use super::value::{Objects, OwnedValues, Value, value};

type Handle = TVMFFIObjectHandle;
type Model = Vec<(Value, Value)>;

/// One step of a test.
#[derive(Clone, Debug)]
enum Step {
    Set(Value, Value),
    Erase(Value),
    Get(Value),
    Clear,
    /// The container is replaced by a copy of it.
    Copy,
    /// One more reference to the container exists from now on.
    Share,
    ShareWeakly,
    /// The other references are dropped.
    Unshare,
}

/// Steps, each with true if C++ performs it.
fn steps(keys: i64, length: usize) -> impl Strategy<Value = Vec<(Step, bool)>> {
    let step = prop_oneof![
        20 => (value(keys), value(4)).prop_map(|(key, value)| Step::Set(key, value)),
        8 => value(keys).prop_map(Step::Erase),
        4 => value(keys).prop_map(Step::Get),
        1 => Just(Step::Copy),
        1 => Just(Step::Share),
        1 => Just(Step::ShareWeakly),
        2 => Just(Step::Unshare),
    ];
    // Clearing is rare, so that long sequences produce large maps.
    let step = prop_oneof![length as u32 => step, 3 => Just(Step::Clear)];
    prop::collection::vec((step, any::<bool>()), 1..length)
}

fn initial() -> impl Strategy<Value = (Vec<(Value, Value)>, u8)> {
    (prop::collection::vec((value(6), value(4)), 0..9), 0..3_u8)
}

fn position(model: &Model, key: &Value) -> Option<usize> {
    model.iter().position(|(known, _)| known == key)
}

/// `small` is true if the container has the small layout after the change: a dense one moves a key
/// that is set again to the end.
fn set(model: &mut Model, key: &Value, value: &Value, small: bool) {
    match position(model, key) {
        Some(place) if small => model[place].1 = value.clone(),
        Some(place) => {
            let (key, _) = model.remove(place);
            model.push((key, value.clone()));
        }
        None => model.push((key.clone(), value.clone())),
    }
}

unsafe fn is_small(map: Handle) -> bool {
    // SAFETY: the caller passes a live map.
    unsafe { body::<TVMFFIMapCell>(map).slots >> 63 == 1 }
}

/// Checks that both sides see the same entries in the same order.
///
/// # Safety
/// `handle` is a live map or dict.
unsafe fn check_entries(cpp: &Containers, handle: Handle, model: &Model, objects: &Objects) {
    // SAFETY: promised by the caller; C++ returns owned values.
    unsafe {
        let read = |(key, value): (TVMFFIAny, TVMFFIAny)| (Value::read(&key, objects), Value::read(&value, objects));
        let ours: Model = map::iter(handle).map(read).collect();
        assert_eq!(&ours, model);
        assert_eq!((map::len(handle), (cpp.MapSize)(handle)), (model.len(), model.len() as i64));
        let mut by_position = Vec::new();
        let mut position = map::first(handle);
        while let Some(entry) = map::entry_at(handle, position) {
            by_position.push(read(entry));
            position = map::next(handle, position);
        }
        assert_eq!((&by_position, position), (model, map::END));
        let mut entries = vec![TVMFFIAny::NONE; 2 * model.len()];
        (cpp.MapEntries)(handle, entries.as_mut_ptr());
        let entries: Vec<Value> = entries.into_iter().map(|value| Value::take(value, objects)).collect();
        let theirs: Model = entries.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        assert_eq!(&theirs, model);
        let mut keys = vec![TVMFFIAny::NONE; model.len()];
        (cpp.MapKeysBackwards)(handle, keys.as_mut_ptr());
        let backwards: Vec<Value> = keys.into_iter().map(|key| Value::take(key, objects)).collect();
        assert!(backwards.iter().eq(model.iter().rev().map(|(key, _)| key)));
    }
}

/// Compares the results of both sides for a key.
unsafe fn check_key(cpp: &Containers, handle: Handle, key: &Value, model: &Model, objects: &Objects) {
    let owned = OwnedValues::of(core::slice::from_ref(key), objects);
    let key = &owned.0[0];
    // SAFETY: the caller passes a live map; C++ returns an owned value.
    unsafe {
        let mut found = TVMFFIAny::NONE;
        let status = (cpp.MapAt)(handle, key, &mut found);
        let count = (cpp.MapCount)(handle, key);
        match (position(model, &Value::read(key, objects)), map::at(handle, key)) {
            (Some(place), Ok(ours)) => {
                let expected = &model[place].1;
                assert_eq!((status, count, &Value::take(found, objects)), (0, 1, expected));
                assert_eq!(&Value::read(&ours, objects), expected);
            }
            (None, Err(failure)) => {
                assert_eq!((status, count), (-1, 0));
                assert_eq!((failure.kind(), failure.message()), raised());
                assert!(map::get(handle, key).unwrap().is_none());
            }
            (place, ours) => panic!("{:?}: {place:?}, but {}", Value::read(key, objects), ours.is_ok()),
        }
    }
}

/// Replaces the caller's map by one without other references, as copy on write does.
unsafe fn make_unique(handle: &mut Handle) {
    // SAFETY: the test owns a reference to the map.
    unsafe {
        if !is_unique(*handle) {
            let copy = map::copy(*handle);
            dec_ref(*handle);
            *handle = copy;
        }
    }
}

fn create(cpp: &Containers, is_dict: bool, pairs: &Model, way: u8, objects: &Objects) -> (Handle, Model) {
    let flat: Vec<Value> = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
    let values = OwnedValues::of(&flat, objects);
    // SAFETY: the values are alive.
    let owned = || values.0.chunks(2).map(|pair| unsafe { (retain(&pair[0]), retain(&pair[1])) }).collect();
    // SAFETY: the values are valid, and their owner keeps them alive.
    let handle = unsafe {
        match (way, is_dict) {
            (0, true) => (cpp.NewDict)(values.0.as_ptr(), values.0.len() as i64),
            (0, false) => (cpp.NewMap)(values.0.as_ptr(), values.0.len() as i64),
            (1, true) => map::new_dict(owned()).unwrap(),
            (1, false) => map::new_map(owned()).unwrap(),
            (_, true) => map::new_dict_of_views(&values.0).unwrap(),
            (_, false) => map::new_map_of_views(&values.0).unwrap(),
        }
    };
    let mut model = Model::new();
    for (key, value) in pairs {
        // A map made from four or more pairs is dense from the beginning; else it becomes dense
        // with the fifth key.
        let dense = if way < 2 { pairs.len() >= 4 } else { model.len() >= 5 || (model.len() == 4) };
        set(&mut model, key, value, !dense);
    }
    (handle, model)
}

fn run(cpp: &Containers, is_dict: bool, ((pairs, way), steps): ((Model, u8), Vec<(Step, bool)>)) {
    let objects = Objects::new();
    let (mut handle, mut model) = create(cpp, is_dict, &pairs, way, &objects);
    // SAFETY: we own the map until the end, and every reference is released once.
    unsafe {
        check_entries(cpp, handle, &model, &objects);
        let mut shared: Vec<(Handle, Model)> = Vec::new();
        let mut weak = Vec::new();
        let check_each_time = steps.len() < 200;
        for (step, by_cpp) in &steps {
            if let (false, Step::Set(..) | Step::Erase(_) | Step::Clear) = (is_dict || *by_cpp, step) {
                make_unique(&mut handle);
            }
            match step {
                Step::Set(key, value) => {
                    let owned = OwnedValues::of(&[key.clone(), value.clone()], &objects);
                    match (*by_cpp, is_dict) {
                        (true, true) => (cpp.DictSet)(handle, &owned.0[0], &owned.0[1]),
                        (true, false) => (cpp.MapSet)(&mut handle, &owned.0[0], &owned.0[1]),
                        (false, _) => map::set(handle, retain(&owned.0[0]), retain(&owned.0[1])).unwrap(),
                    }
                    set(&mut model, key, value, is_small(handle));
                }
                Step::Erase(key) => {
                    let owned = OwnedValues::of(core::slice::from_ref(key), &objects);
                    let place = position(&model, key);
                    match (*by_cpp, is_dict) {
                        (true, true) => (cpp.DictErase)(handle, &owned.0[0]),
                        (true, false) => (cpp.MapErase)(&mut handle, &owned.0[0]),
                        (false, _) => {
                            let erased = map::erase(handle, &owned.0[0]).unwrap();
                            let erased = erased.map(|value| Value::take(value, &objects));
                            assert_eq!(erased.as_ref(), place.map(|place| &model[place].1));
                        }
                    }
                    place.map(|place| model.remove(place));
                }
                Step::Get(key) => check_key(cpp, handle, key, &model, &objects),
                Step::Clear => {
                    match (*by_cpp, is_dict) {
                        (true, true) => (cpp.DictClear)(handle),
                        (true, false) => (cpp.MapClear)(&mut handle),
                        (false, _) => map::clear(handle),
                    }
                    model.clear();
                }
                Step::Copy => {
                    let copy = match (*by_cpp, is_dict) {
                        (true, true) => (cpp.DictCopy)(handle),
                        (true, false) => (cpp.MapCopy)(handle),
                        (false, _) => map::copy(handle),
                    };
                    dec_ref(handle);
                    handle = copy;
                }
                Step::Share if !is_dict => {
                    inc_ref(handle);
                    shared.push((handle, model.clone()));
                }
                Step::Share => {}
                Step::ShareWeakly => {
                    inc_weak(handle);
                    weak.push(handle);
                }
                Step::Unshare => {
                    shared.drain(..).for_each(|(handle, _)| dec_ref(handle));
                    weak.drain(..).for_each(|handle| dec_weak(handle));
                }
            }
            if check_each_time {
                check_entries(cpp, handle, &model, &objects);
                for (handle, model) in &shared {
                    check_entries(cpp, *handle, model, &objects);
                }
            }
        }
        check_entries(cpp, handle, &model, &objects);
        for (key, _) in model.iter().take(20) {
            check_key(cpp, handle, key, &model, &objects);
        }
        dec_ref(handle);
        shared.into_iter().for_each(|(handle, _)| dec_ref(handle));
        weak.into_iter().for_each(|handle| dec_weak(handle));
    }
}

#[test]
fn small_dicts_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(200, (initial(), steps(4, 60)), |case| run(cpp, true, case));
}

#[test]
fn small_maps_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(200, (initial(), steps(4, 60)), |case| run(cpp, false, case));
}

#[test]
fn large_dicts_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(10, (initial(), steps(500, 2000)), |case| run(cpp, true, case));
}

#[test]
fn large_maps_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(10, (initial(), steps(500, 2000)), |case| run(cpp, false, case));
}

#[test]
fn hash_and_equality_of_keys() {
    let Some(cpp) = containers() else { return };
    let random_text = prop::collection::vec(any::<u8>(), 0..70);
    let random = (any::<i64>(), random_text, any::<bool>()).prop_map(|(number, bytes, on_heap)| match number % 3 {
        0 => Value::Str(super::value::Text { bytes, on_heap }),
        1 => Value::Bytes(super::value::Text { bytes, on_heap }),
        _ => Value::Int(number),
    });
    let any_value = || prop_oneof![value(3), random.clone()];
    check(2000, (any_value(), any_value()), |(left, right)| {
        let objects = Objects::new();
        let owned = OwnedValues::of(&[left.clone(), right.clone()], &objects);
        // SAFETY: the values are valid.
        unsafe {
            for value in &owned.0 {
                assert_eq!(any_hash::hash(value).unwrap(), (cpp.Hash)(value), "{left:?} {right:?}");
            }
            let [first, second] = [&owned.0[0], &owned.0[1]];
            let equal = any_hash::equal(first, second).unwrap();
            assert_eq!((equal, (cpp.Equal)(first, second) == 1), (left == right, left == right), "{left:?} {right:?}");
        }
    });
}

#[test]
fn erased_values_are_released_once_more_by_nobody() {
    let Some(cpp) = containers() else { return };
    let objects = Objects::new();
    let key = Value::Object(0).owned(&objects);
    // SAFETY: the values are valid, and every reference is released once.
    unsafe {
        let dict = map::new_dict(vec![(retain(&key), retain(&key))]).unwrap();
        (cpp.DictErase)(dict, &key);
        assert!(map::erase(dict, &key).unwrap().is_none());
        release(key);
        dec_ref(dict);
    }
}
