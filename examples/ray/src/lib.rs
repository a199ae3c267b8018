//! The library in each worker of the batch job: computes how much the brightness of a picture
//! changes, and where.

use kernpack::{Result, TensorView, TensorViewMut, ensure, packed_func};

kernpack::library!();

/// The brightness of a pixel of red, green and blue, from 0 to 255 (ITU-R BT.601).
fn luma(pixel: &[u8]) -> i32 {
    (299 * i32::from(pixel[0]) + 587 * i32::from(pixel[1]) + 114 * i32::from(pixel[2]) + 500) / 1000
}

/// Writes the strength of the edges of a picture: the gradient of its brightness by Sobel's
/// operator, at most 255; 0 on the border.
///
/// `picture` has the shape (height, width, 3), `edges` (height, width).
#[packed_func]
pub fn edges(picture: TensorView<u8>, mut edges: TensorViewMut<u8>) -> Result<()> {
    let [height, width, 3] = picture.shape() else {
        kernpack::bail!(ValueError, "a picture has the shape (height, width, 3), got {:?}", picture.shape());
    };
    ensure!(
        edges.shape() == [*height, *width],
        ValueError,
        "the edges of a picture of {height} x {width} pixels have the shape of {:?}",
        edges.shape()
    );
    let (height, width) = (usize::try_from(*height)?, usize::try_from(*width)?);
    let brightness: Vec<i32> = picture.as_slice()?.chunks_exact(3).map(luma).collect();
    let result = edges.as_slice_mut()?;
    result.fill(0);
    for y in 1..height.saturating_sub(1) {
        for x in 1..width.saturating_sub(1) {
            let at = |dy: usize, dx: usize| brightness[(y + dy - 1) * width + x + dx - 1];
            let across = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0);
            let down = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2);
            let strength = f64::from(across * across + down * down).sqrt();
            result[y * width + x] = strength.min(255.0) as u8;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kernpack::Tensor;

    use super::*;

    #[test]
    fn a_step_is_an_edge() {
        // Black on the left, white on the right.
        let pixels = [0_u8, 0, 255, 255].repeat(4).into_iter().flat_map(|value| [value; 3]).collect();
        let picture = Tensor::from_vec(pixels, &[4, 4, 3]).unwrap();
        let mut strength = Tensor::from_vec(vec![1_u8; 16], &[4, 4]).unwrap();
        edges(picture.view().unwrap(), strength.view_mut().unwrap()).unwrap();
        let strength = strength.view::<u8>().unwrap().to_vec();
        assert_eq!(strength, [[0; 4], [0, 255, 255, 0], [0, 255, 255, 0], [0; 4]].concat());
        // Too small for a neighbourhood, and mismatched shapes.
        let empty = Tensor::from_vec(vec![0_u8; 3], &[1, 1, 3]).unwrap();
        let mut one = Tensor::from_vec(vec![9_u8], &[1, 1]).unwrap();
        edges(empty.view().unwrap(), one.view_mut().unwrap()).unwrap();
        assert_eq!(one.view::<u8>().unwrap().to_vec(), [0]);
        let error = edges(picture.view().unwrap(), one.view_mut().unwrap()).unwrap_err();
        assert!(error.message().contains("4 x 4 pixels"), "{error}");
    }
}
