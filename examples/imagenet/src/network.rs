//! The network, with memory for its input and output in each thread.

use kernpack::{Result, Tensor};

use crate::crop::SIDE;

/// The number of classes.
#[cfg(has_model)]
const CLASSES: i64 = 1000;

/// The shape of the network's input.
pub(crate) const SHAPE: [i64; 4] = [1, 3, SIDE as i64, SIDE as i64];

/// Runs the network on the input that `fill` writes, and calls `read` with its scores.
///
/// # Errors
/// Returns an error if the library was built without the model, or with a model of other shapes.
#[cfg(has_model)]
pub(crate) fn with_scores<R>(fill: impl FnOnce(&mut [f32]), read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    use std::cell::RefCell;

    thread_local! {
        /// Created by the first call of a thread: the network's input, and its scores.
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

/// Returns an error, because there is no model.
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

/// Creates a tensor for the network, with the numbers that `fill` writes.
///
/// # Errors
/// Returns an error if memory cannot be allocated.
pub(crate) fn input(fill: impl FnOnce(&mut [f32])) -> Result<Tensor> {
    let mut tensor = Tensor::zeros::<f32>(&SHAPE)?;
    fill(tensor.view_mut::<f32>()?.as_slice_mut()?);
    Ok(tensor)
}
