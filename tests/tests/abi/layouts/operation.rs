//! Operations on a sequence: the same list for C++, for us, and for the model.

use std::ptr::null;

use kernpack::sys::abi::TVMFFIAny;
use proptest::prelude::*;

use super::value::{Objects, OwnedValues, Value, value};

/// An operation on an array or a list. Indices may be out of bounds.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Push(Value),
    Insert(i64, Value),
    InsertMany(i64, Vec<Value>),
    Set(i64, Value),
    Pop,
    Erase(i64),
    EraseRange(i64, i64),
    Reserve(i64),
    Resize(i64),
    Clear,
    Reverse,
    Assign(Vec<Value>),
}

/// An operation as containers.cc reads it.
#[repr(C)]
pub(crate) struct RawOperation {
    code: i32,
    first: i64,
    last: i64,
    values: *const TVMFFIAny,
    count: i64,
}

impl Operation {
    /// Calls `run` with the operation in C++'s form; its values are alive during the call.
    pub(crate) fn with_raw<T>(&self, objects: &Objects, run: impl FnOnce(&RawOperation) -> T) -> T {
        let (code, first, last, values) = match self {
            Self::Push(value) => (0, 0, 0, core::slice::from_ref(value)),
            Self::Insert(index, value) => (1, *index, 0, core::slice::from_ref(value)),
            Self::InsertMany(index, values) => (2, *index, 0, &values[..]),
            Self::Set(index, value) => (3, *index, 0, core::slice::from_ref(value)),
            Self::Pop => (4, 0, 0, &[][..]),
            Self::Erase(index) => (5, *index, 0, &[][..]),
            Self::EraseRange(first, last) => (6, *first, *last, &[][..]),
            Self::Reserve(capacity) => (7, *capacity, 0, &[][..]),
            Self::Resize(size) => (8, *size, 0, &[][..]),
            Self::Clear => (9, 0, 0, &[][..]),
            Self::Reverse => (10, 0, 0, &[][..]),
            Self::Assign(values) => (11, 0, 0, &values[..]),
        };
        let owned = OwnedValues::of(values, objects);
        let values = if owned.0.is_empty() { null() } else { owned.0.as_ptr() };
        run(&RawOperation { code, first, last, values, count: owned.0.len() as i64 })
    }

    /// The model: applies the operation to a plain vector, or returns the error that it raises.
    pub(crate) fn apply(&self, model: &mut Vec<Value>) -> Result<(), (String, String)> {
        let size = model.len() as i64;
        let index_error = |message: String| Err(("IndexError".to_owned(), message));
        match self {
            Self::Push(value) => model.push(value.clone()),
            Self::Insert(index, _) | Self::InsertMany(index, _) if *index < 0 || *index > size => {
                return index_error(format!("Index {index} out of bounds [0, {size}]"));
            }
            Self::Insert(index, value) => model.insert(*index as usize, value.clone()),
            Self::InsertMany(index, values) => {
                model.splice(*index as usize..*index as usize, values.iter().cloned());
            }
            Self::Set(index, _) | Self::Erase(index) if *index < 0 || *index >= size => {
                return index_error(format!("Index {index} out of bounds {size}"));
            }
            Self::Set(index, value) => model[*index as usize] = value.clone(),
            Self::Pop if size == 0 => return index_error("pop_back on empty sequence".to_owned()),
            Self::Pop => _ = model.pop(),
            Self::Erase(index) => _ = model.remove(*index as usize),
            Self::EraseRange(first, last) if first == last => {}
            Self::EraseRange(first, last) if *first < 0 || *last > size || first > last => {
                return index_error(format!("Erase range [{first}, {last}) out of bounds {size}"));
            }
            Self::EraseRange(first, last) => _ = model.drain(*first as usize..*last as usize),
            Self::Reserve(_) => {}
            Self::Resize(new_size) => model.resize(*new_size as usize, Value::None),
            Self::Clear => model.clear(),
            Self::Reverse => model.reverse(),
            Self::Assign(values) => model.clone_from(values),
        }
        Ok(())
    }
}

/// Operations on a list.
pub(crate) fn list_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![20 => operation(), 1 => Just(Operation::Reverse)]
}

/// Operations on an array or a list.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let values = || prop::collection::vec(value(10), 1..5);
    // Mostly within the sequence; sometimes not.
    let index = || prop_oneof![8 => 0..6_i64, 2 => 0..30_i64, 1 => -2..0_i64];
    prop_oneof![
        6 => value(10).prop_map(Operation::Push),
        4 => (index(), value(10)).prop_map(|(index, value)| Operation::Insert(index, value)),
        2 => (index(), values()).prop_map(|(index, values)| Operation::InsertMany(index, values)),
        3 => (index(), value(10)).prop_map(|(index, value)| Operation::Set(index, value)),
        2 => Just(Operation::Pop),
        3 => index().prop_map(Operation::Erase),
        2 => (index(), index()).prop_map(|(first, last)| Operation::EraseRange(first, last)),
        1 => (0..40_i64).prop_map(Operation::Reserve),
        1 => (0..20_i64).prop_map(Operation::Resize),
        1 => Just(Operation::Clear),
        1 => values().prop_map(Operation::Assign),
    ]
}
