use core::ops::ControlFlow;

use crate::{Error, Result};

/// The action of a [`Walk`](super::Walk) after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow<B = ()> {
    /// Continues.
    Continue,
    /// Continues, but skips the node's children. After the children it is the same as `Continue`.
    Skip,
    /// Stops; the walk returns this value.
    Stop(B),
}

/// The values that a callback of a [`Walk`](super::Walk) may return: nothing, [`Flow`],
/// [`ControlFlow`], or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a callback of a walk cannot return `{Self}`",
    note = "return nothing, Flow<B>, ControlFlow<B>, or a Result of these; a walk that stops with a value begins with `Walk::returning()`"
)]
pub trait IntoFlow<B> {
    /// Converts the value to the next action, or to the error with which the walk fails.
    ///
    /// # Errors
    /// The callback's own.
    fn into_flow(self) -> Result<Flow<B>>;
}

impl<B> IntoFlow<B> for () {
    fn into_flow(self) -> Result<Flow<B>> {
        Ok(Flow::Continue)
    }
}

impl<B> IntoFlow<B> for Flow<B> {
    fn into_flow(self) -> Result<Self> {
        Ok(self)
    }
}

impl<B> IntoFlow<B> for ControlFlow<B> {
    fn into_flow(self) -> Result<Flow<B>> {
        Ok(match self {
            Self::Continue(()) => Flow::Continue,
            Self::Break(value) => Flow::Stop(value),
        })
    }
}

impl<B, F: IntoFlow<B>, E: Into<Error>> IntoFlow<B> for Result<F, E> {
    fn into_flow(self) -> Result<Flow<B>> {
        self.map_err(Into::into)?.into_flow()
    }
}
