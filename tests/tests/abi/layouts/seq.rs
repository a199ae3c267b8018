//! Arrays and lists.

use kernpack::sys::abi::{TVMFFIAny, TVMFFIObjectHandle, TVMFFISeqCell};
use kernpack::sys::embedded::failure::Failure;
use kernpack::sys::embedded::release::release;
use kernpack::sys::embedded::{body, dec_ref, dec_weak, inc_ref, inc_weak, is_unique, list, seq};
use proptest::prelude::*;

use super::check;
use super::cpp::{Containers, containers, raised};
use super::operation::{Operation, list_operation, operation};
use super::value::{Objects, OwnedValues, Value, value};

type Handle = TVMFFIObjectHandle;

/// One step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// A change by C++, or by us.
    Change { operation: Operation, by_cpp: bool },
    /// One more reference to the container exists from now on.
    Share,
    /// There are weak references to it.
    ShareWeakly,
    /// The other references are dropped.
    Unshare,
}

fn steps(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = (Vec<Value>, bool, Vec<Step>)> {
    let step = prop_oneof![
        24 => (operation, any::<bool>()).prop_map(|(operation, by_cpp)| Step::Change { operation, by_cpp }),
        1 => Just(Step::Share),
        1 => Just(Step::ShareWeakly),
        2 => Just(Step::Unshare),
    ];
    (prop::collection::vec(value(10), 0..9), any::<bool>(), prop::collection::vec(step, 1..80))
}

fn expect(result: Result<(), Failure>, expected: Result<(), (String, String)>, what: &dyn std::fmt::Debug) {
    let result = result.map_err(|failure| (failure.kind(), failure.message()));
    assert_eq!(result, expected, "{what:?}");
}

/// Checks that both sides see the same elements.
///
/// # Safety
/// `handle` is a live array or list.
unsafe fn check_elements(cpp: &Containers, handle: Handle, model: &[Value], objects: &Objects) {
    // SAFETY: promised by the caller; C++ returns owned values.
    unsafe {
        let ours: Vec<Value> = seq::elements(handle).iter().map(|value| Value::read(value, objects)).collect();
        assert_eq!(ours, model);
        let cell = body::<TVMFFISeqCell>(handle);
        assert!(cell.capacity >= cell.size);
        assert_eq!(((cpp.SeqSize)(handle), (cpp.SeqCapacity)(handle)), (model.len() as i64, cell.capacity));
        let mut elements = vec![TVMFFIAny::NONE; model.len()];
        (cpp.SeqElements)(handle, elements.as_mut_ptr());
        let theirs: Vec<Value> = elements.into_iter().map(|value| Value::take(value, objects)).collect();
        assert_eq!(theirs, model);
    }
}

/// Compares the results of both sides for an index.
unsafe fn check_index(cpp: &Containers, handle: Handle, index: i64, model: &[Value], objects: &Objects) {
    // SAFETY: the caller passes a live sequence; C++ returns an owned value.
    unsafe {
        let mut found = TVMFFIAny::NONE;
        let status = (cpp.SeqGet)(handle, index, &mut found);
        match (usize::try_from(index).ok().and_then(|index| model.get(index)), seq::get(handle, index)) {
            (Some(expected), Ok(ours)) => {
                assert_eq!((status, &Value::take(found, objects)), (0, expected));
                assert_eq!(&Value::read(&ours, objects), expected);
                assert!(seq::contains(handle, &ours).unwrap());
            }
            (None, Err(failure)) => {
                assert_eq!(status, -1);
                assert_eq!((failure.kind(), failure.message()), raised());
            }
            (expected, ours) => panic!("index {index}: {expected:?}, but {}", ours.is_ok()),
        }
    }
}

/// Our side of an operation on a list.
///
/// # Safety
/// `handle` is a live list.
unsafe fn change_list(handle: Handle, operation: &Operation, objects: &Objects) -> Result<(), Failure> {
    // SAFETY: promised by the caller; values are owned and passed on.
    unsafe {
        let size = seq::elements(handle).len() as i64;
        match operation {
            Operation::Push(value) => list::push(handle, value.owned(objects)),
            Operation::Insert(index, value) => list::insert(handle, *index, value.owned(objects)),
            Operation::InsertMany(index, values) => {
                let inserted = seq::new_list(values.iter().map(|value| value.owned(objects)).collect());
                let result = list::replace_slice(handle, *index, *index, inserted);
                dec_ref(inserted);
                result
            }
            Operation::Set(index, value) => seq::replace(handle, *index, value.owned(objects)).map(|old| release(old)),
            Operation::Pop => list::pop(handle, size - 1).map(|value| release(value)),
            Operation::Erase(index) => list::pop(handle, *index).map(|value| release(value)),
            Operation::EraseRange(first, last) => list::erase_range(handle, *first, *last),
            Operation::Reserve(capacity) => list::reserve(handle, *capacity),
            Operation::Resize(new_size) if *new_size < size => list::erase_range(handle, *new_size, size),
            Operation::Resize(new_size) => (size..*new_size).try_for_each(|_| list::push(handle, TVMFFIAny::NONE)),
            Operation::Clear => {
                seq::clear(handle);
                Ok(())
            }
            Operation::Reverse => {
                list::reverse(handle);
                Ok(())
            }
            Operation::Assign(values) => {
                seq::clear(handle);
                values.iter().try_for_each(|value| list::push(handle, value.owned(objects)))
            }
        }
    }
}

fn lists(cpp: &Containers, (initial, made_by_cpp, steps): (Vec<Value>, bool, Vec<Step>)) {
    let objects = Objects::new();
    let values = OwnedValues::of(&initial, &objects);
    let mut model = initial;
    // SAFETY: we own the list until the end, and every reference is released once.
    unsafe {
        let handle = match made_by_cpp {
            true => (cpp.NewList)(values.0.as_ptr(), values.0.len() as i64),
            false => seq::new_list_of_shared(&values.0),
        };
        drop(values);
        let (mut strong, mut weak) = (0, 0);
        for step in steps {
            match &step {
                Step::Change { operation: Operation::Pop, .. } if model.is_empty() => {}
                Step::Change { operation, by_cpp } => {
                    let expected = operation.apply(&mut model);
                    if !by_cpp {
                        expect(change_list(handle, operation, &objects), expected, &step);
                    } else if operation.with_raw(&objects, |raw| (cpp.ListChange)(handle, raw)) != 0 {
                        assert_eq!(Err(raised()), expected, "{step:?}");
                    } else {
                        assert_eq!(Ok(()), expected, "{step:?}");
                    }
                }
                Step::Share => {
                    inc_ref(handle);
                    strong += 1;
                }
                Step::ShareWeakly => {
                    inc_weak(handle);
                    weak += 1;
                }
                Step::Unshare => {
                    (0..strong).for_each(|_| dec_ref(handle));
                    (0..weak).for_each(|_| dec_weak(handle));
                    (strong, weak) = (0, 0);
                }
            }
            check_elements(cpp, handle, &model, &objects);
        }
        for index in [-1, 0, model.len() as i64 - 1, model.len() as i64] {
            check_index(cpp, handle, index, &model, &objects);
        }
        // The last strong reference is dropped before the last weak one.
        (0..=strong).for_each(|_| dec_ref(handle));
        (0..weak).for_each(|_| dec_weak(handle));
    }
}

#[test]
fn lists_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(300, steps(list_operation()), |case| lists(cpp, case));
}

/// Our side of an operation on an array, which is copied first if there are other references: in
/// place if possible, else through a new array with the elements of `result`.
///
/// # Safety
/// `handle` is a live array to which the test owns a reference.
unsafe fn change_array(handle: &mut Handle, operation: &Operation, result: &[Value], objects: &Objects) {
    // SAFETY: promised by the caller; values are owned and passed on.
    unsafe {
        if !is_unique(*handle) {
            let copy = seq::new_array_of_shared(seq::elements(*handle));
            dec_ref(*handle);
            *handle = copy;
        }
        let size = seq::elements(*handle).len() as i64;
        match operation {
            Operation::Set(index, value) => {
                _ = seq::replace(*handle, *index, value.owned(objects)).map(|old| release(old));
            }
            Operation::Erase(index) => _ = seq::remove(*handle, *index).map(|value| release(value)),
            Operation::Pop => release(seq::remove(*handle, size - 1).unwrap()),
            Operation::Clear => seq::clear(*handle),
            _ => {
                let values = OwnedValues::of(result, objects);
                let made = match result.len() % 3 {
                    0 => seq::new_array_of_views(&values.0).unwrap(),
                    1 => seq::new_array_of_shared(&values.0),
                    _ => {
                        let owned = result.iter().map(|value| value.owned(objects)).collect();
                        seq::new_array_with_capacity(owned, result.len() + 3)
                    }
                };
                dec_ref(*handle);
                *handle = made;
            }
        }
    }
}

fn arrays(cpp: &Containers, (initial, made_by_cpp, steps): (Vec<Value>, bool, Vec<Step>)) {
    let objects = Objects::new();
    let values = OwnedValues::of(&initial, &objects);
    let mut model = initial;
    // SAFETY: we own the array until the end, and every reference is released once.
    unsafe {
        let mut handle = match made_by_cpp {
            true => (cpp.NewArray)(values.0.as_ptr(), values.0.len() as i64),
            false => seq::new_array(model.iter().map(|value| value.owned(&objects)).collect()),
        };
        drop(values);
        let (mut shared, mut weak) = (Vec::new(), Vec::new());
        for step in steps {
            match &step {
                Step::Change { operation: Operation::Pop, .. } if model.is_empty() => {}
                Step::Change { operation, by_cpp } => {
                    let expected = operation.apply(&mut model);
                    let (before, in_place) = (handle, is_unique(handle));
                    if !by_cpp {
                        change_array(&mut handle, operation, &model, &objects);
                    } else if operation.with_raw(&objects, |raw| (cpp.ArrayChange)(&mut handle, raw)) != 0 {
                        assert_eq!(Err(raised()), expected, "{step:?}");
                    } else {
                        assert_eq!(Ok(()), expected, "{step:?}");
                        if let (true, Operation::Set(..) | Operation::Erase(_)) = (in_place, operation) {
                            assert_eq!(handle, before, "{step:?}");
                        }
                    }
                }
                Step::Share => {
                    inc_ref(handle);
                    shared.push((handle, model.clone()));
                }
                Step::ShareWeakly => {
                    inc_weak(handle);
                    weak.push(handle);
                }
                Step::Unshare => {
                    shared.drain(..).for_each(|(handle, _)| dec_ref(handle));
                    weak.drain(..).for_each(|handle| dec_weak(handle));
                }
            }
            check_elements(cpp, handle, &model, &objects);
            for (handle, model) in &shared {
                check_elements(cpp, *handle, model, &objects);
            }
        }
        for index in [-1, 0, model.len() as i64 - 1, model.len() as i64] {
            check_index(cpp, handle, index, &model, &objects);
        }
        dec_ref(handle);
        shared.into_iter().for_each(|(handle, _)| dec_ref(handle));
        weak.into_iter().for_each(|handle| dec_weak(handle));
    }
}

#[test]
fn arrays_are_changed_by_both_sides() {
    let Some(cpp) = containers() else { return };
    check(300, steps(operation()), |case| arrays(cpp, case));
}
