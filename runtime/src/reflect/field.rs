//! What generated code calls to visit one field of an object type.

use core::marker::PhantomData;

use super::attr_slot::SetAttr;
use super::{AttrVisitor, AttrVisitorMut};
use crate::object::FieldValue;
use crate::value::FromAny;
use crate::Result;

/// Shows a field to a visitor.
///
/// # Errors
/// What the visitor raises.
#[inline]
pub fn visit_field<T: FieldValue>(field: &T, name: &str, visitor: &mut dyn AttrVisitor) -> Result<()> {
    field.visit_attr(name, visitor)
}

/// Gives a field to a visitor to change. `set` is `ConvertOf::<T>::SET`.
///
/// # Errors
/// What the visitor raises; for a narrow number, that it was set to one out of range.
#[inline]
pub fn visit_field_mut<T: FieldValue>(
    field: &mut T,
    name: &str,
    visitor: &mut dyn AttrVisitorMut,
    set: Option<SetAttr<T>>,
) -> Result<()> {
    field.visit_attr_mut(name, visitor, set)
}

/// Whether a concrete type converts from values, and how: `ConvertOf::<T>::SET`, with [`NoConvert`] in scope.
pub struct ConvertOf<T>(PhantomData<T>);

impl<T: for<'a> FromAny<'a>> ConvertOf<T> {
    /// Sets a place to a converted value.
    pub const SET: Option<SetAttr<T>> = Some(|place, value| {
        *place = T::from_any(value)?;
        Ok(())
    });
}

/// For types that do not convert; the inherent constant of [`ConvertOf`] goes before it.
pub trait NoConvert<T> {
    /// None.
    const SET: Option<SetAttr<T>> = None;
}

impl<T> NoConvert<T> for ConvertOf<T> {}
