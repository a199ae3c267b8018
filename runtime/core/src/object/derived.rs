//! What generated code asks about a type's base and fields.
//!
//! It asks through the type and through the fields' markers, so that a base which is no object, or a field whose type does not fit, is
//! one error at its place, not one for each question.

use core::marker::PhantomData;

use super::{FieldAt, FieldValue, Object, TypeDef};
use crate::reflect::{AttrVisitor, AttrVisitorMut, SetAttr, VisitAttrs};
use crate::value::Any;
use crate::{Error, Result};

/// Type index of the base type.
pub fn parent_index<T: Object>() -> i32 {
    T::Parent::type_index()
}

/// Definition of the base type.
pub fn parent_def<T: Object>() -> Option<&'static TypeDef> {
    T::Parent::type_def()
}

/// Whether objects of the base type can be created field by field.
pub const fn is_parent_creatable<T: Object>() -> bool {
    T::Parent::CREATABLE
}

/// Whether objects of the type can be created field by field.
pub const fn is_creatable<T: Object>() -> bool {
    T::CREATABLE
}

/// How the value of the base is duplicated.
#[expect(clippy::type_complexity, reason = "a name for it would say no more")]
pub const fn parent_duplicate<T: Object>() -> Option<fn(&T::Parent) -> T::Parent> {
    T::Parent::DUPLICATE
}

/// Compiles for a base that types may be derived from.
pub const fn assert_open_parent<T: Object>() {
    assert!(
        !T::Parent::FINAL,
        "no type can be derived from this one: it is `final`, or an enum; hold an `ObjRef` of it in a field instead"
    );
}

/// The names of the fields that other languages see in a type.
pub struct FieldNames {
    /// Of its own fields.
    pub own: &'static [&'static str],
    /// Of its base type's.
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

/// Compiles for the name of a field of `T` that no ancestor of `T` has.
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

/// A type's way to duplicate its values: `Clone`, else `by_fields`, if all fields allow it.
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

/// A second value of a field.
pub fn duplicate_field<F: FieldAt>(value: &F::Value) -> F::Value {
    value.duplicate()
}

/// A field's default as other languages get it.
pub fn default_of<F: FieldAt>(value: &F::Value) -> Any {
    value.field_value()
}

/// Shows the fields of the base; `visit` is `VisitOf::<T::Parent>::SHARED`.
///
/// # Errors
/// What the visitor raises; TypeError for a base that implements [`Object`] by hand, without [`VisitAttrs`].
pub fn visit_base<T: Object>(
    visit: Option<ShowFields<T::Parent>>,
    base: &T::Parent,
    visitor: &mut dyn AttrVisitor,
) -> Result<()> {
    visit.ok_or_else(no_visits::<T>)?(base, visitor)
}

/// Lends the fields of the base to be changed; `visit` is `VisitOf::<T::Parent>::EXCLUSIVE`.
///
/// # Errors
/// As for [`visit_base`].
pub fn visit_base_mut<T: Object>(
    visit: Option<LendFields<T::Parent>>,
    base: &mut T::Parent,
    visitor: &mut dyn AttrVisitorMut,
) -> Result<()> {
    visit.ok_or_else(no_visits::<T>)?(base, visitor)
}

#[cold]
fn no_visits<T: Object>() -> Error {
    let (key, parent) = (T::TYPE_KEY, T::Parent::TYPE_KEY);
    crate::error!(TypeError, "the fields of {key} cannot be visited, because {parent} lacks `impl VisitAttrs`")
}

type ShowFields<T> = fn(&T, &mut dyn AttrVisitor) -> Result<()>;
type LendFields<T> = fn(&mut T, &mut dyn AttrVisitorMut) -> Result<()>;

/// How the fields of a concrete type are visited, with [`NoVisit`] in scope.
pub struct VisitOf<T>(PhantomData<T>);

impl<T: VisitAttrs> VisitOf<T> {
    /// Shows them.
    pub const SHARED: Option<ShowFields<T>> = Some(|object, visitor| object.visit_attrs(visitor));
    /// Lends them.
    pub const EXCLUSIVE: Option<LendFields<T>> = Some(|object, visitor| object.visit_attrs_mut(visitor));
}

/// For types without [`VisitAttrs`]; the inherent constants of [`VisitOf`] go before these.
pub trait NoVisit<T> {
    /// None.
    const SHARED: Option<ShowFields<T>> = None;
    /// None.
    const EXCLUSIVE: Option<LendFields<T>> = None;
}

impl<T> NoVisit<T> for VisitOf<T> {}

/// Shows a field.
///
/// # Errors
/// What the visitor raises.
#[inline]
pub fn visit_field<F: FieldAt>(value: &F::Value, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    value.visit_attr(name, visitor)
}

/// Lends a field to be changed; `set` is `ConvertOf::<F::Value>::SET`.
///
/// # Errors
/// What the visitor raises.
#[inline]
pub fn visit_field_mut<F: FieldAt>(
    value: &mut F::Value,
    name: &str,
    visitor: &mut dyn AttrVisitorMut,
    set: Option<SetAttr<F::Value>>,
) -> Result<()> {
    value.visit_attr_mut(name, visitor, set)
}
