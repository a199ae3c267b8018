use crate::value::{Any, DataType, Device, IntoAny};
use crate::{Array, Error, ObjRef, Object, Result};

/// The result of a callback of a [`Rewrite`](super::Rewrite) for a value.
#[derive(Clone, Debug)]
pub enum Replacement {
    /// The value is kept.
    Keep,
    /// This value replaces it.
    With(Any),
}

impl Replacement {
    /// Creates a replacement by a value.
    pub fn with(value: impl IntoAny) -> Self {
        Self::With(value.into_any())
    }
}

/// The values that a callback of a [`Rewrite`](super::Rewrite) may return: [`Replacement`], an
/// object or another value that replaces the node (also the node itself), or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a callback of a rewrite cannot return `{Self}`",
    note = "return Replacement, ObjRef<T>, Any, a number, a text, or a Result of these"
)]
pub trait IntoReplacement {
    /// Converts the value to the node's replacement, or to the error with which the rewrite fails.
    ///
    /// # Errors
    /// The callback's own.
    fn into_replacement(self) -> Result<Replacement>;
}

impl IntoReplacement for Replacement {
    fn into_replacement(self) -> Result<Self> {
        Ok(self)
    }
}

impl<R: IntoReplacement, E: Into<Error>> IntoReplacement for Result<R, E> {
    fn into_replacement(self) -> Result<Replacement> {
        self.map_err(Into::into)?.into_replacement()
    }
}

macro_rules! values {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<$($generics)*> IntoReplacement for $type {
            fn into_replacement(self) -> Result<Replacement> {
                Ok(Replacement::with(self))
            }
        }
    )*};
}
values!([] Any, [T: Object] ObjRef<T>, [] bool, [] i64, [] f64, [] String, [] DataType, [] Device, [T: IntoAny] Array<T>);
