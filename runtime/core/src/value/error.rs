//! Conversion between errors and values.

use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};
use crate::abi::type_index;
use crate::{Error, embedded};

impl Schema for Error {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Error");
}

impl<'a> FromAny<'a> for Error {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as an
        // error.
        unsafe {
            if (*object).type_index != type_index::ERROR {
                return Err(Mismatch::TYPE);
            }
            embedded::inc_ref(object);
            Ok(Self::from_raw(object))
        }
    }
}

impl IntoAny for Error {
    fn into_any(self) -> Any {
        // SAFETY: the value takes ownership of the reference.
        unsafe { Any::from_object(self.into_raw()) }
    }
}

impl ToArg for Error {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.clone().into_any())
    }
}
