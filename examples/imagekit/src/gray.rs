//! Color to gray.

use kernpack::{Result, Tensor, TensorView, ensure, packed_func};

/// Converts an RGB image to gray: Rec. 601 luma, 0.299 R + 0.587 G + 0.114 B.
///
/// `rgb` is uint8 of shape (height, width, 3) with any strides; the result is float32 of shape
/// (height, width).
#[packed_func(name = "imagekit.to_gray")]
pub fn to_gray(rgb: TensorView<u8>) -> Result<Tensor> {
    let &[height, width, channels] = rgb.shape() else {
        kernpack::bail!(ValueError, "expected an image of shape (height, width, 3), got shape {:?}", rgb.shape());
    };
    ensure!(channels == 3, ValueError, "expected 3 channels, red, green and blue, got {channels}");
    let pixels = rgb.to_vec();
    let gray: Vec<f32> = pixels.as_chunks::<3>().0.iter().map(|&pixel| luma(pixel)).collect();
    Tensor::from_vec(gray, &[height, width])
}

/// Sums whole thousandths, so that the result is the correctly rounded one on every machine.
fn luma([red, green, blue]: [u8; 3]) -> f32 {
    let thousandths = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    thousandths as f32 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::luma;

    #[test]
    fn white_is_white() {
        assert_eq!(luma([255, 255, 255]), 255.0);
        assert_eq!(luma([255, 0, 0]), 76.245);
    }
}
