use core::fmt;
use core::marker::PhantomData;

use super::function::convert_result;
use super::{Args, Function};
use crate::Result;
use crate::value::FromAny;

/// A [`Function`] whose argument tuple and result type are fixed.
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

    /// Calls.
    ///
    /// # Errors
    /// Whatever the function raises, or TypeError when its result has another type.
    #[inline]
    pub fn call(&self, args: A) -> Result<R> {
        convert_result(args.with_raw(|raw| self.function.call_raw(raw))?)
    }

    /// The function without its types.
    pub fn untyped(&self) -> &Function {
        &self.function
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
