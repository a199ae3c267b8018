//! Functions that the code of `#[derive(Object)]` calls to visit the fields of a type.

use core::marker::PhantomData;

use super::dispatch::show;
use super::visitor_mut::change;
use super::{AttrVisitor, AttrVisitorMut, SetAttr, VisitAttrs};
use crate::object::{FieldAt, FieldValue};
use crate::{Error, Object, Result};

/// Visits the fields of the base; `visit` is `VisitOf::<T::Parent>::SHARED`.
///
/// # Errors
/// Returns the visitor's error, or a TypeError for a base that implements [`Object`] by hand
/// without [`VisitAttrs`].
#[inline]
pub fn visit_base<T: Object>(
    visit: Option<ShowFields<T::Parent>>,
    base: &T::Parent,
    visitor: &mut dyn AttrVisitor,
) -> Result<()> {
    visit.ok_or_else(no_visits::<T>)?(base, visitor)
}

/// Visits the fields of the base mutably; `visit` is `VisitOf::<T::Parent>::EXCLUSIVE`.
///
/// # Errors
/// As for [`visit_base`].
#[inline]
pub fn visit_base_mut<T: Object>(
    visit: Option<LendFields<T::Parent>>,
    base: &mut T::Parent,
    visitor: &mut dyn AttrVisitorMut,
) -> Result<()> {
    visit.ok_or_else(no_visits::<T>)?(base, visitor)
}

#[cold]
#[inline]
fn no_visits<T: Object>() -> Error {
    let (key, parent) = (T::TYPE_KEY, T::Parent::TYPE_KEY);
    crate::error!(TypeError, "the fields of {key} cannot be visited, because {parent} lacks `impl VisitAttrs`")
}

type ShowFields<T> = fn(&T, &mut dyn AttrVisitor) -> Result<()>;
type LendFields<T> = fn(&mut T, &mut dyn AttrVisitorMut) -> Result<()>;

/// The functions that visit the fields of a concrete type, with [`NoVisit`] in scope.
pub struct VisitOf<T>(PhantomData<T>);

impl<T: VisitAttrs> VisitOf<T> {
    /// Visits the fields.
    pub const SHARED: Option<ShowFields<T>> = Some(|object, visitor| object.visit_attrs(visitor));
    /// Visits the fields mutably.
    pub const EXCLUSIVE: Option<LendFields<T>> = Some(|object, visitor| object.visit_attrs_mut(visitor));
}

/// For types without [`VisitAttrs`]; the inherent constants of [`VisitOf`] take precedence over
/// these.
pub trait NoVisit<T> {
    /// No function.
    const SHARED: Option<ShowFields<T>> = None;
    /// No function.
    const EXCLUSIVE: Option<LendFields<T>> = None;
}

impl<T> NoVisit<T> for VisitOf<T> {}

/// Visits a field.
///
/// # Errors
/// Returns the visitor's error.
#[inline]
pub fn visit_field<F: FieldAt>(value: &F::Value, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    show(value.shown(), name, visitor)
}

/// Visits a field mutably; `set` is `ConvertOf::<F::Value>::SET`.
///
/// # Errors
/// Returns the visitor's error.
#[inline]
pub fn visit_field_mut<F: FieldAt>(
    value: &mut F::Value,
    name: &str,
    visitor: &mut dyn AttrVisitorMut,
    set: Option<SetAttr<F::Value>>,
) -> Result<()> {
    change(value, name, visitor, set)
}
