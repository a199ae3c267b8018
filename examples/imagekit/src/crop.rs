//! A rectangle of an image.

use std::ops::Range;

use kernpack::{Result, Tensor, TensorView, ensure, packed_func};

use crate::image;

/// Copies a rectangle out of a gray image.
///
/// `image` is float32 of shape (height, width) with any strides. The rectangle must lie inside.
#[packed_func]
pub fn crop(image: TensorView<f32>, top: i64, left: i64, height: i64, width: i64) -> Result<Tensor> {
    let (image_height, image_width) = image::size(image.shape())?;
    let rows = range("top", top, "height", height, image_height)?;
    let columns = range("left", left, "width", width, image_width)?;
    let image = &image;
    let pixels = rows.flat_map(|y| columns.clone().filter_map(move |x| image.get(&[y, x]))).collect();
    Tensor::from_vec(pixels, &[height, width])
}

/// Returns the indices of `count` elements from `start`, which must be within `available`. If not,
/// the error names all three.
fn range(start_name: &str, start: i64, count_name: &str, count: i64, available: i64) -> Result<Range<usize>> {
    let end = start.checked_add(count);
    ensure!(
        start >= 0 && count >= 0 && end.is_some_and(|end| end <= available),
        ValueError,
        "the rectangle does not lie inside the image: {start_name} {start} + {count_name} {count}, but the image's \
         {count_name} is {available}"
    );
    // Both fit: they are between 0 and the size of a tensor in memory.
    Ok(start as usize..(start + count) as usize)
}
