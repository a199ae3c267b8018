use core::fmt;
use core::marker::PhantomData;

use super::{Args, Function};
use crate::Result;
use crate::value::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};

/// A [`Function`] with a fixed argument tuple and result type.
///
/// ```
/// use kernpack::{Function, TypedFunction};
/// let double: TypedFunction<(i64,), i64> = Function::from_fn(|x: i64| 2 * x).typed();
/// assert_eq!(double.call((21,)).unwrap(), 42);
/// ```
pub struct TypedFunction<A, R> {
    function: Function,
    types: PhantomData<fn(A) -> R>,
}

impl<A: Args, R: for<'a> FromAny<'a>> TypedFunction<A, R> {
    pub(super) fn new(function: Function) -> Self {
        Self { function, types: PhantomData }
    }

    /// Calls the function.
    ///
    /// # Errors
    /// Returns the error that the function raises, or a TypeError if its result has another type.
    #[inline]
    pub fn call(&self, args: A) -> Result<R> {
        args.with_raw(|raw| self.function.call_raw_as(raw))
    }

    /// The function without its types.
    pub fn untyped(&self) -> &Function {
        &self.function
    }
}

impl<A: Args, R: for<'a> FromAny<'a>> From<Function> for TypedFunction<A, R> {
    fn from(function: Function) -> Self {
        Self::new(function)
    }
}

/// The result, then the parameters, as in the stock library.
macro_rules! schema {
    ($($name:ident)*) => {
        impl<$($name: Schema,)* R: Schema> Schema for TypedFunction<($($name,)*), R> {
            const TYPE: TypeSchema = TypeSchema { key: "ffi.Function", args: &[R::TYPE, $($name::TYPE),*] };
        }
    };
}
schema!();
schema!(A);
schema!(A B);
schema!(A B C);
schema!(A B C D);
schema!(A B C D E);
schema!(A B C D E F);
schema!(A B C D E F G);
schema!(A B C D E F G H);
schema!(A B C D E F G H I);
schema!(A B C D E F G H I J);
schema!(A B C D E F G H I J K);
schema!(A B C D E F G H I J K L);

/// The types are not checked: a function does not carry type information.
impl<'a, A: Args, R: for<'b> FromAny<'b>> FromAny<'a> for TypedFunction<A, R>
where
    Self: Schema,
{
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        Function::from_any(value).map(Self::new)
    }
}

impl<A, R> IntoAny for TypedFunction<A, R>
where
    Self: Schema,
{
    fn into_any(self) -> Any {
        self.function.into_any()
    }
}

impl<A, R> ToArg for TypedFunction<A, R> {
    fn to_arg(&self) -> Arg<'_> {
        self.function.to_arg()
    }
}

impl<A, R> Clone for TypedFunction<A, R> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), types: PhantomData }
    }
}

impl<A, R> fmt::Debug for TypedFunction<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.function.fmt(f)
    }
}
