//! The size of an image.

use kernpack::{Result, error};

/// Returns height and width of a gray image, or an error with the actual shape of the tensor.
pub(crate) fn size(shape: &[i64]) -> Result<(i64, i64)> {
    match *shape {
        [height, width] => Ok((height, width)),
        _ => Err(error!(ValueError, "expected an image of shape (height, width), got shape {shape:?}")),
    }
}
