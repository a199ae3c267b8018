//! A `char`, which is a string of one character, and `Cow`, which borrows from the argument.

use std::borrow::Cow;

use super::text::STR;
use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};

impl Schema for char {
    const TYPE: TypeSchema = STR;
}

impl<'a> FromAny<'a> for char {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let text = <&str>::from_any(value)?;
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(not_one(text)),
        }
    }
}

#[cold]
fn not_one(text: &str) -> Mismatch {
    Mismatch::value(format!("expected a string of one character, got one of {}", text.chars().count()))
}

impl IntoAny for char {
    fn into_any(self) -> Any {
        (&*self.encode_utf8(&mut [0; 4])).into_any()
    }
}

impl ToArg for char {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}

impl<'a, T: ToOwned + ?Sized> Schema for Cow<'a, T>
where
    &'a T: Schema,
{
    const TYPE: TypeSchema = <&'a T>::TYPE;
}

/// Borrows from the argument.
impl<'a, T: ToOwned + ?Sized> FromAny<'a> for Cow<'a, T>
where
    &'a T: FromAny<'a>,
{
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        <&'a T>::from_any(value).map(Cow::Borrowed)
    }
}

impl<'a, T: ToOwned + ?Sized> IntoAny for Cow<'a, T>
where
    for<'b> &'b T: IntoAny,
{
    fn into_any(self) -> Any {
        (&*self).into_any()
    }
}

impl<T: ToOwned + ToArg + ?Sized> ToArg for Cow<'_, T> {
    fn to_arg(&self) -> Arg<'_> {
        (**self).to_arg()
    }
}
