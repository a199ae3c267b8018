use core::marker::PhantomData;

use crate::object::{FieldValue, FromFieldValue};
use crate::value::{Any, AnyView, Mismatch, TypeSchema};
use crate::{Result, error};

/// A field of any type that can be read and set as a value.
pub trait AttrSlot {
    /// Returns the field's value; changing the result does not change the field.
    fn get(&self) -> Any;

    /// Sets the field to a value that converts to its type.
    ///
    /// # Errors
    /// Returns an error if the value does not convert, in which case the field is unchanged.
    /// Returns a TypeError for a type that does not convert from values.
    fn set(&mut self, value: &Any) -> Result<()>;

    /// The field's type.
    fn schema(&self) -> TypeSchema;
}

/// Sets a field to a value; generated code passes it for types that convert from values.
pub type SetAttr<T> = fn(&mut T, &AnyView<'_>) -> core::result::Result<(), Mismatch>;

/// The conversion from values of a concrete type, if it has one: `ConvertOf::<T>::SET`, with
/// [`NoConvert`] in scope.
pub struct ConvertOf<T>(PhantomData<T>);

impl<T: FromFieldValue> ConvertOf<T> {
    /// Sets a place to a converted value.
    pub const SET: Option<SetAttr<T>> = Some(|place, value| {
        *place = T::from_field_value(value)?;
        Ok(())
    });
}

/// For types that do not convert; the inherent constant of [`ConvertOf`] takes precedence over it.
pub trait NoConvert<T> {
    /// No conversion.
    const SET: Option<SetAttr<T>> = None;
}

impl<T> NoConvert<T> for ConvertOf<T> {}

/// A field and its setter.
pub(crate) struct Slot<'a, T> {
    name: &'a str,
    value: &'a mut T,
    set: Option<SetAttr<T>>,
}

impl<'a, T> Slot<'a, T> {
    #[inline]
    pub(crate) const fn new(name: &'a str, value: &'a mut T, set: Option<SetAttr<T>>) -> Self {
        Self { name, value, set }
    }
}

impl<T: FieldValue> AttrSlot for Slot<'_, T> {
    #[inline]
    fn get(&self) -> Any {
        self.value.field_value()
    }

    #[inline]
    fn set(&mut self, value: &Any) -> Result<()> {
        let Some(set) = self.set else { return Err(no_conversion(self.name, &T::TYPE)) };
        set(self.value, value.as_view())
            .map_err(|mismatch| mismatch.into_error(&format!("field '{}': ", self.name), &T::TYPE, value.as_view()))
    }

    #[inline]
    fn schema(&self) -> TypeSchema {
        T::TYPE
    }
}

#[cold]
#[inline]
fn no_conversion(name: &str, schema: &TypeSchema) -> crate::Error {
    error!(TypeError, "field '{name}' cannot be set to a value: nothing converts to its Rust type (schema {schema})")
}
