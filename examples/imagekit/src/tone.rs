//! Brightness, in parallel on all CPUs: functions for one pixel and for one row, which are called
//! with whole images.

use kernpack::packed_func;

/// Brightens (`exponent` below 1) or darkens (above 1) a gray image, and keeps black and white: 255
/// (gray / 255) ^ `exponent`.
///
/// `gray` is float32 of any shape, with any strides; the result is a new image of the same shape.
#[packed_func(parallel)]
pub fn gamma(gray: &f32, exponent: f32) -> f32 {
    255.0 * (gray / 255.0).powf(exponent)
}

/// Stretches each row of a gray image in place, so that 0 is its darkest and 255 its brightest
/// pixel. A row with a single value becomes 0.
///
/// `image` is float32 of shape (height, width), or more dimensions. The pixels of a row must be
/// contiguous.
#[packed_func(parallel)]
pub fn stretch_rows(image: &mut [f32]) {
    let (low, high) =
        image.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), pixel| (low.min(*pixel), high.max(*pixel)));
    let gain = if high > low { 255.0 / (high - low) } else { 0.0 };
    image.iter_mut().for_each(|pixel| *pixel = (*pixel - low) * gain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_plain_functions() {
        assert_eq!((gamma(&255.0, 2.0), gamma(&127.5, 2.0)), (255.0, 63.75));
        let mut row = [2.0, 1.0, 3.0];
        stretch_rows(&mut row);
        assert_eq!(row, [127.5, 0.0, 255.0]);
        let mut flat = [7.0; 4];
        stretch_rows(&mut flat);
        assert_eq!(flat, [0.0; 4]);
    }
}
