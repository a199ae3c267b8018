use core::marker::PhantomData;

use super::{Any, AnyView, Changed, ResultPlace, Schema, Shown, TypeSchema};
use crate::abi::TVMFFIAny;
use crate::{Error, Result};

/// A Rust type that an argument or result can be converted into.
///
/// Implemented for numbers, strings, tensors, containers, functions, modules and objects.
/// Conversions never lose data silently: an integer that does not fit is an error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a packed function",
    label = "no conversion from an FFI value to this type",
    note = "numbers, bool, &str, String, &[u8], Option, Vec, HashMap<String, _>, tuples, Tensor, TensorView<T>, Function, Module and Any convert",
    note = "for a struct of your own: add `#[derive(Object)]` and take `ObjRef<YourType>`",
    note = "for an enum of your own without data: add `#[derive(Object, Clone, Copy)]` and `#[object(key = \"...\", enum = \"int\")]`"
)]
pub trait FromAny<'a>: Schema + Sized {
    /// Converts the value; the result borrows from it if the type borrows.
    ///
    /// # Errors
    /// Returns the reason that the value does not convert. The caller adds the argument and the
    /// expected type.
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch>;
}

/// A valid parameter type of a packed function: every [`FromAny`] type, and types with write access
/// to tensors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a packed function",
    label = "no conversion from an FFI value to this type",
    note = "numbers, bool, &str, String, &[u8], Option, Vec, HashMap<String, _>, tuples, Tensor, TensorView<T>, Function, Module and Any convert",
    note = "for a struct of your own: add `#[derive(Object)]` and take `ObjRef<YourType>`",
    note = "for an enum of your own without data: add `#[derive(Object, Clone, Copy)]` and `#[object(key = \"...\", enum = \"int\")]`"
)]
#[doc(hidden)]
pub trait FromArg<'a>: Sized {
    /// True if the type has write access to the memory of its argument.
    const WRITES: bool;

    /// Converts argument `value`.
    ///
    /// # Errors
    /// As for [`FromAny::from_any`].
    ///
    /// # Safety
    /// For a type with write access, no other value shares the argument's memory as long as the
    /// result lives.
    unsafe fn from_arg(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch>;
}

impl<'a, T: FromAny<'a>> FromArg<'a> for T {
    const WRITES: bool = false;

    #[inline(always)]
    unsafe fn from_arg(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        T::from_any(value)
    }
}

/// A Rust type that can be passed to a packed function as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a packed function",
    label = "no conversion from this type to an FFI value",
    note = "numbers, bool, &str, String, &[u8], Option, Vec, HashMap<String, _>, tuples, &Tensor, &Function, &Module, &ObjRef<T> and &Any convert"
)]
pub trait ToArg {
    /// Returns a view of `self`, or a temporary that owns a converted value.
    fn to_arg(&self) -> Arg<'_>;
}

/// A Rust type that a packed function can return or a container can hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become an FFI value",
    label = "no conversion from this type to an FFI value",
    note = "for a struct of your own: add `#[derive(Object)]` and use `ObjRef<YourType>`"
)]
pub trait IntoAny: Schema {
    /// Converts to an owned value.
    fn into_any(self) -> Any;

    /// Converts to the result of a call.
    #[doc(hidden)]
    #[inline]
    fn into_result(self, _place: ResultPlace) -> Any
    where
        Self: Sized,
    {
        self.into_any()
    }

    /// Returns the value as a visitor of fields sees it.
    #[doc(hidden)]
    fn shown(&self) -> Shown<'_>
    where
        Self: Clone,
    {
        Shown::Owned(self.clone().into_any())
    }

    /// Returns the value in a form that a visitor of fields can change.
    #[doc(hidden)]
    #[inline]
    fn changed(&mut self) -> Changed<'_>
    where
        Self: Clone + Sized,
    {
        Changed::Other
    }
}

/// A valid return type of a packed function: a value, nothing, or a `Result` of these whose error
/// converts to [`Error`].
///
/// # Safety
/// `into_return` returns an owned value by the ABI's rules.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a packed function",
    label = "not a value that converts, nor a `Result` of one",
    note = "return a type that converts (numbers, String, Vec, Tensor, ObjRef<T>, ...), nothing, or Result<T, E> where E: Into<kernpack::Error>",
    note = "for a struct of your own: add `#[derive(Object)]` and return `ObjRef<YourType>`"
)]
pub unsafe trait IntoReturn {
    /// Schema of the value on success.
    const TYPE: TypeSchema;

    /// Converts to the raw owned value, or the error.
    ///
    /// # Errors
    /// Returns the function's own error.
    fn into_return(self) -> Result<TVMFFIAny>;

    /// Like [`IntoReturn::into_return`], for a caller that may have lent a place for the result's
    /// parts.
    ///
    /// # Errors
    /// As for [`IntoReturn::into_return`].
    #[doc(hidden)]
    #[inline]
    fn into_return_at(self, _place: ResultPlace) -> Result<TVMFFIAny>
    where
        Self: Sized,
    {
        self.into_return()
    }
}

// SAFETY: an `Any` is an owned value.
unsafe impl<T: IntoAny> IntoReturn for T {
    const TYPE: TypeSchema = <T as Schema>::TYPE;

    #[inline]
    fn into_return(self) -> Result<TVMFFIAny> {
        Ok(self.into_any().into_raw())
    }

    #[inline]
    fn into_return_at(self, place: ResultPlace) -> Result<TVMFFIAny> {
        Ok(self.into_result(place).into_raw())
    }
}

// SAFETY: as above.
unsafe impl<T: IntoAny, E: Into<Error>> IntoReturn for core::result::Result<T, E> {
    const TYPE: TypeSchema = <T as Schema>::TYPE;

    #[inline]
    fn into_return(self) -> Result<TVMFFIAny> {
        match self {
            Ok(value) => Ok(value.into_any().into_raw()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn into_return_at(self, place: ResultPlace) -> Result<TVMFFIAny> {
        match self {
            Ok(value) => Ok(value.into_result(place).into_raw()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The reason that a value did not convert. One pointer in size, so that conversions return it in
/// registers.
#[derive(Debug)]
pub struct Mismatch(Option<Box<Detail>>);

/// The details that a message adds to "expected X, got Y".
#[derive(Debug)]
struct Detail {
    /// The part of the value that is wrong.
    wrong: Wrong,
    /// A complete clause.
    clause: String,
}

/// The part of a value that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Type,
    Value,
    /// A number is outside the range of the type.
    Range,
}

impl Mismatch {
    /// The value has another type.
    pub const TYPE: Self = Self(None);

    /// The value has another type; `clause` is more precise than "expected X, got Y".
    #[cold]
    pub fn type_note(clause: String) -> Self {
        Self(Some(Box::new(Detail { wrong: Wrong::Type, clause })))
    }

    /// The type matches but the value does not: out of range, not UTF-8, not contiguous. `clause`
    /// describes the problem.
    #[cold]
    pub fn value(clause: String) -> Self {
        Self(Some(Box::new(Detail { wrong: Wrong::Value, clause })))
    }

    /// The type matches, but the number is outside the range of the Rust type. Like
    /// [`Mismatch::value`]; an OverflowError if Python imports the library.
    #[inline]
    pub(crate) fn range(clause: String) -> Self {
        if Error::MARKS_RANGES {
            Self(Some(Box::new(Detail { wrong: Wrong::Range, clause })))
        } else {
            Self::value(clause)
        }
    }

    /// Adds the place of a value of type `of` in a container of type `whole`: `places[0]` for a
    /// wrong type, and `places[1]` for a wrong value.
    #[cold]
    pub(crate) fn within(self, places: [&str; 2], whole: &TypeSchema, of: &TypeSchema, got: &AnyView<'_>) -> Self {
        let (wrong, clause) = (self.wrong(), self.describe(of, got));
        let clause = match wrong {
            Wrong::Type => format!("expected {whole}, but {}: {clause}", places[0]),
            Wrong::Value | Wrong::Range => format!("{}: {clause}", places[1]),
        };
        Self(Some(Box::new(Detail { wrong, clause })))
    }

    fn wrong(&self) -> Wrong {
        self.0.as_ref().map_or(Wrong::Type, |detail| detail.wrong)
    }

    /// Returns the clause for a message: `expected int, got str`.
    pub(crate) fn describe(&self, expected: &TypeSchema, got: &AnyView<'_>) -> String {
        match &self.0 {
            None => format!("expected {expected}, got {}", got.type_name()),
            Some(detail) => detail.clause.clone(),
        }
    }

    /// Returns true if the value has the type.
    pub(crate) fn is_value(&self) -> bool {
        self.wrong() != Wrong::Type
    }

    /// The kind of the error.
    pub(crate) fn kind(&self) -> &'static str {
        match self.wrong() {
            Wrong::Type => "TypeError",
            Wrong::Value | Wrong::Range => "ValueError",
        }
    }

    /// Creates an error whose message begins with `context`.
    #[cold]
    #[track_caller]
    pub(crate) fn into_error(self, context: &str, expected: &TypeSchema, got: &AnyView<'_>) -> Error {
        self.marked(Error::new(self.kind(), format!("{context}{}", self.describe(expected, got))))
    }

    /// Like [`Mismatch::into_error`], with a whole message and without a place in the backtrace.
    #[inline(always)]
    pub(crate) fn into_plain_error(self, message: &str) -> Error {
        self.marked(Error::with_backtrace(self.kind(), message, ""))
    }

    /// Marks an error for this value as one about a number out of range, if it is.
    #[inline]
    pub(crate) fn marked(&self, error: Error) -> Error {
        if Error::MARKS_RANGES && self.wrong() == Wrong::Range { error.out_of_range() } else { error }
    }
}

/// An argument of a call: a view, and possibly a temporary owned value that the view points to.
pub struct Arg<'a> {
    raw: TVMFFIAny,
    owned: bool,
    borrowed: PhantomData<&'a TVMFFIAny>,
}

impl<'a> Arg<'a> {
    /// An argument that borrows its value.
    #[inline]
    pub const fn borrowed(view: AnyView<'a>) -> Self {
        Self { raw: *view.as_raw(), owned: false, borrowed: PhantomData }
    }

    /// An argument that owns its value for the duration of the call.
    #[inline]
    pub const fn owned(value: Any) -> Self {
        Self { raw: value.into_raw(), owned: true, borrowed: PhantomData }
    }

    /// The raw view; valid as long as `self`.
    #[inline]
    pub const fn as_raw(&self) -> TVMFFIAny {
        self.raw
    }
}

impl Drop for Arg<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: `owned` took ownership of the value, and it is released once.
            drop(unsafe { Any::from_raw(self.raw) });
        }
    }
}

impl<T: ToArg + ?Sized> ToArg for &T {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        (**self).to_arg()
    }
}

impl Schema for Any {
    const TYPE: TypeSchema = TypeSchema::new("Any");
    const STORAGE: crate::value::Storage = crate::value::Storage::Any;
}

impl<'a> FromAny<'a> for Any {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        Any::from_view(value).ok_or_else(|| {
            Mismatch::type_note(
                "expected a value that can be kept, got a borrowed DLTensor*; pass an ffi.Tensor, or take a TensorView"
                    .to_owned(),
            )
        })
    }
}

impl IntoAny for Any {
    #[inline]
    fn into_any(self) -> Any {
        self
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl ToArg for Any {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(*self.as_view())
    }
}

impl Schema for AnyView<'_> {
    const TYPE: TypeSchema = TypeSchema::new("Any");
}

impl<'a> FromAny<'a> for AnyView<'a> {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        Ok(*value)
    }
}

impl ToArg for AnyView<'_> {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        Arg::borrowed(self.lent())
    }
}

macro_rules! from_into_any {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<$($generics)*> From<$type> for Any {
            fn from(value: $type) -> Self {
                IntoAny::into_any(value)
            }
        }
    )*};
}
from_into_any!([] bool, [] i8, [] i16, [] i32, [] i64, [] u8, [] u16, [] u32, [] u64, [] usize, [] isize, [] f32, [] f64,
    ['a] &'a str, [] String, ['a] &'a [u8], [] super::Str, [] super::Bytes, [] super::DataType, [] super::Device);
