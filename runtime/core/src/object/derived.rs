//! Queries of generated code about a type's base and fields.
//!
//! Generated code passes the type and the fields' marker types, so that a base that is not an
//! object, or a field whose type does not fit, causes one error at its place rather than one for
//! each query.

use super::{FieldAt, FieldValue, Object, TypeDef};
use crate::value::Any;

/// Type index of the base type.
pub fn parent_index<T: Object>() -> i32 {
    T::Parent::type_index()
}

/// Definition of the base type.
pub fn parent_def<T: Object>() -> Option<&'static TypeDef> {
    T::Parent::type_def()
}

/// Returns whether objects of the base type can be created field by field.
pub const fn is_parent_creatable<T: Object>() -> bool {
    T::Parent::CREATABLE
}

/// Returns whether objects of the type can be created field by field.
pub const fn is_creatable<T: Object>() -> bool {
    T::CREATABLE
}

/// The function that duplicates the value of the base.
#[expect(clippy::type_complexity, reason = "a name for it would say no more")]
pub const fn parent_duplicate<T: Object>() -> Option<fn(&T::Parent) -> T::Parent> {
    T::Parent::DUPLICATE
}

/// Compiles only if types may be derived from the base.
pub const fn assert_open_parent<T: Object>() {
    assert!(
        !T::Parent::FINAL,
        "no type can be derived from this one: it is `final`, or an enum; hold an `ObjRef` of it in a field instead"
    );
}

/// The names of a type's fields that are visible to other languages.
pub struct FieldNames {
    /// Names of its own fields.
    pub own: &'static [&'static str],
    /// Names of its base type's fields.
    pub base: Option<&'static FieldNames>,
}

impl FieldNames {
    /// No names.
    pub const NONE: Self = Self { own: &[], base: None };
}

/// The names of the base type.
pub const fn parent_names<T: Object>() -> &'static FieldNames {
    const { &T::Parent::FIELD_NAMES }
}

/// Compiles only if no ancestor of `T` has a field with this name.
pub const fn assert_new_name<T: Object>(name: &str) {
    let mut ancestor = Some(parent_names::<T>());
    while let Some(names) = ancestor {
        let mut own = names.own;
        while let [first, rest @ ..] = own {
            assert!(
                !is_same(first.as_bytes(), name.as_bytes()),
                "the parent type has a field of this name; give one of them another, as in `#[field(name = \"...\")]`"
            );
            own = rest;
        }
        ancestor = names.base;
    }
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, rest @ ..], [other_first, other_rest @ ..]) = (one, other) {
        if *first != *other_first {
            return false;
        }
        (one, other) = (rest, other_rest);
    }
    one.is_empty() && other.is_empty()
}

/// The function that duplicates values of a type: `Clone`, else `by_fields` if all fields allow it.
pub const fn duplicate_of<T>(
    clone: Option<fn(&T) -> T>,
    all_fields: bool,
    by_fields: fn(&T) -> T,
) -> Option<fn(&T) -> T> {
    match clone {
        Some(clone) => Some(clone),
        None if all_fields => Some(by_fields),
        None => None,
    }
}

/// Duplicates the value of a field.
pub fn duplicate_field<F: FieldAt>(value: &F::Value) -> F::Value {
    value.duplicate()
}

/// Converts a field's default for other languages.
pub fn default_of<F: FieldAt>(value: &F::Value) -> Any {
    value.field_value()
}
