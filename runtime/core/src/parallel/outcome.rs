//! Return types of the closures of loops.

use core::convert::Infallible;

use crate::layout::Element;
use crate::{Error, Result};

/// A return type of the body of a loop: nothing, or a `Result` whose error stops the loop.
#[diagnostic::on_unimplemented(
    message = "the body of a parallel loop cannot return `{Self}`",
    label = "neither nothing nor a `Result<(), E>`",
    note = "end the closure with `;`, or return `Result<(), E>` where E: Into<kernpack::Error>; `map` takes closures that return an element"
)]
pub trait Outcome {
    /// The error type.
    #[doc(hidden)]
    type Failure;
    /// Returns `Ok` to continue the loop, or the error that stops it.
    #[doc(hidden)]
    fn outcome(self) -> Result<(), Self::Failure>;
    /// Converts to the error that stops the loop.
    #[doc(hidden)]
    fn error(failure: Self::Failure) -> Error;
}

impl Outcome for () {
    type Failure = Infallible;

    #[inline(always)]
    fn outcome(self) -> Result<(), Infallible> {
        Ok(())
    }

    #[inline]
    fn error(failure: Infallible) -> Error {
        match failure {}
    }
}

impl<E: Into<Error>> Outcome for core::result::Result<(), E> {
    type Failure = E;

    #[inline(always)]
    fn outcome(self) -> Self {
        self
    }

    #[cold]
    #[inline]
    fn error(failure: E) -> Error {
        failure.into()
    }
}

/// A return type of a function that is mapped over elements: an element, or a `Result` of one whose
/// error stops the loop.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become an element of a tensor",
    label = "neither an element type nor a `Result` of one",
    note = "return u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64, or Result<T, E> of one where E: Into<kernpack::Error>"
)]
pub trait Yield {
    /// The element type.
    type Value: Element;
    /// The error type.
    #[doc(hidden)]
    type Failure;
    /// Returns the element, or the error that stops the loop.
    #[doc(hidden)]
    fn value(self) -> Result<Self::Value, Self::Failure>;
    /// Converts to the error that stops the loop.
    #[doc(hidden)]
    fn error(failure: Self::Failure) -> Error;
}

impl<T: Element> Yield for T {
    type Value = T;
    type Failure = Infallible;

    #[inline(always)]
    fn value(self) -> Result<T, Infallible> {
        Ok(self)
    }

    #[inline]
    fn error(failure: Infallible) -> Error {
        match failure {}
    }
}

impl<T: Element, E: Into<Error>> Yield for core::result::Result<T, E> {
    type Value = T;
    type Failure = E;

    #[inline(always)]
    fn value(self) -> Self {
        self
    }

    #[cold]
    #[inline]
    fn error(failure: E) -> Error {
        failure.into()
    }
}
