//! The network, with memory for its input and output in each thread.

use kernpack::Result;

use crate::features::TOKENS;

#[cfg(has_model)]
mod network {
    use std::cell::RefCell;

    use kernpack::{Result, Tensor};

    use super::TOKENS;

    /// The number of scores of a file.
    const SCORES: i64 = 214;

    thread_local! {
        /// Created by the first call of a thread: tokens, and scores.
        static MEMORY: RefCell<Option<(Tensor, Tensor)>> = const { RefCell::new(None) };
    }

    pub(crate) fn with_scores<R>(tokens: &[i32; TOKENS], read: impl FnOnce(&[f32]) -> R) -> Result<R> {
        MEMORY.with_borrow_mut(|memory| {
            let (input, output) = match memory {
                Some(memory) => memory,
                None => {
                    memory.insert((Tensor::zeros::<i32>(&[1, TOKENS as i64])?, Tensor::zeros::<f32>(&[1, SCORES])?))
                }
            };
            input.view_mut::<i32>()?.as_slice_mut()?.copy_from_slice(tokens);
            crate::kernels::typed::magika(input, output)?;
            Ok(read(output.view::<f32>()?.as_slice()?))
        })
    }
}

/// Runs the network on the tokens of a file, and calls `read` with its scores.
///
/// # Errors
/// Returns an error if the library was built without the model.
#[cfg(has_model)]
pub(crate) fn with_scores<R>(tokens: &[i32; TOKENS], read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    network::with_scores(tokens, read)
}

/// Returns an error, because there is no model.
///
/// # Errors
/// Always.
#[cfg(not(has_model))]
pub(crate) fn with_scores<R>(_: &[i32; TOKENS], _: impl FnOnce(&[f32]) -> R) -> Result<R> {
    kernpack::bail!(
        RuntimeError,
        "this library was built without its model: run `cargo xtask filetype`, which installs it and builds again"
    )
}
