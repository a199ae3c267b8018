//! The network, with memory for its input and output in each thread.

use kernpack::{Result, Tensor};

use crate::crop::SIDE;

/// Classes of the network.
#[cfg(has_model)]
const CLASSES: i64 = 1000;

/// Extents of what the network takes.
pub(crate) const SHAPE: [i64; 4] = [1, 3, SIDE as i64, SIDE as i64];

/// Runs the network on what `fill` writes; `read` sees its scores.
///
/// # Errors
/// When the library was built without the model, or with one of other shapes.
#[cfg(has_model)]
pub(crate) fn with_scores<R>(fill: impl FnOnce(&mut [f32]), read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    use std::cell::RefCell;

    thread_local! {
        /// Made by the first call of a thread: what the network takes, and its scores.
        static MEMORY: RefCell<Option<(Tensor, Tensor)>> = const { RefCell::new(None) };
    }

    MEMORY.with_borrow_mut(|memory| {
        let (input, output) = match memory {
            Some(memory) => memory,
            None => memory.insert((Tensor::zeros::<f32>(&SHAPE)?, Tensor::zeros::<f32>(&[1, CLASSES])?)),
        };
        fill(input.view_mut::<f32>()?.as_slice_mut()?);
        crate::kernels::typed::resnet18(input, output)?;
        Ok(read(output.view::<f32>()?.as_slice()?))
    })
}

/// Says that there is no model.
///
/// # Errors
/// Always.
#[cfg(not(has_model))]
pub(crate) fn with_scores<R>(_: impl FnOnce(&mut [f32]), _: impl FnOnce(&[f32]) -> R) -> Result<R> {
    kernpack::bail!(
        RuntimeError,
        "this library was built without a model: run `cargo xtask imagenet`, which makes one, or set IMAGENET_MODEL to an ONNX file and build again"
    )
}

/// A tensor for the network, with what `fill` writes.
///
/// # Errors
/// Memory that the system does not have.
pub(crate) fn input(fill: impl FnOnce(&mut [f32])) -> Result<Tensor> {
    let mut tensor = Tensor::zeros::<f32>(&SHAPE)?;
    fill(tensor.view_mut::<f32>()?.as_slice_mut()?);
    Ok(tensor)
}
