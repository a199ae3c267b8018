//! Functions as arguments and as results.

use kernpack::{Function, Result, Tensor, TensorView, ensure, packed_func};

use crate::image;

/// Builds an image from the results of a callback for each row.
///
/// `callback(row, index)` gets a float32 tensor of shape (width,) and the row's index, and returns
/// a tensor of the same shape. It may be a function of any language. An error that it raises
/// reaches the caller unchanged.
#[packed_func]
pub fn map_rows(image: TensorView<f32>, callback: Function) -> Result<Tensor> {
    let (height, width) = image::size(image.shape())?;
    let pixels = image.to_vec();
    let mut mapped = Vec::with_capacity(pixels.len());
    for index in 0..height {
        let start = (index * width) as usize;
        let row = Tensor::from_slice(&pixels[start..start + width as usize], &[width])?;
        let result: Tensor = callback.call_as((row, index))?;
        let result = result.view::<f32>()?;
        ensure!(
            result.shape() == [width],
            ValueError,
            "the callback returned shape {:?} for row {index}, expected [{width}]",
            result.shape()
        );
        mapped.extend(result.to_vec());
    }
    Tensor::from_vec(mapped, &[height, width])
}

/// Returns a function that multiplies an image by `gain` and limits the result to 255.
#[packed_func]
pub fn make_scaler(gain: f64) -> Result<Function> {
    ensure!(gain.is_finite() && gain >= 0.0, ValueError, "expected a gain of 0 or more, got {gain}");
    let gain = gain as f32;
    Ok(Function::from_fn(move |image: Tensor| -> Result<Tensor> {
        let pixels = image.view::<f32>()?;
        let scaled = pixels.to_vec().into_iter().map(|value| (value * gain).min(255.0)).collect();
        Tensor::from_vec(scaled, pixels.shape())
    }))
}
