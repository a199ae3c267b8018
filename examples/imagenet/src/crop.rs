//! Prepares the input of the network: crops the middle of a photograph, scales it down, and
//! normalizes it with the mean and deviation of the training photographs of such networks.

use crate::photo::Photo;

/// The number of rows and columns of the network's input.
pub(crate) const SIDE: usize = 224;

/// The shorter side of the scaled photograph that the middle is cropped from.
const SHORTER: usize = 256;

/// The means of red, green and blue, from 0 to 1.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// The input pixels that an output pixel averages: the first one, and the weights from it on.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// Returns the taps of the `SIDE` pixels in the middle when `extent` pixels are scaled to `small`:
/// a triangle filter, as wide as the pixels that are merged into one. It is the same as the
/// bilinear filter of Pillow and of torchvision.
fn taps(extent: usize, small: usize) -> Vec<Taps> {
    let scale = extent as f64 / small as f64;
    let radius = scale.max(1.0);
    let start = (small - SIDE) as f64 / 2.0;
    // Half a pixel rounds to even, as in Python.
    let start = start.round_ties_even() as usize;
    let tap = |place: usize| {
        let center = (place as f64 + 0.5) * scale;
        let first = (center - radius + 0.5).max(0.0) as usize;
        let end = ((center + radius + 0.5) as usize).min(extent);
        let weights: Vec<f64> =
            (first..end).map(|pixel| (1.0 - (pixel as f64 + 0.5 - center).abs() / radius).max(0.0)).collect();
        let sum: f64 = weights.iter().sum();
        Taps { first, weights: weights.iter().map(|weight| (weight / sum) as f32).collect() }
    };
    (start..start + SIDE).map(tap).collect()
}

/// Returns the scaled size: the shorter side is `SHORTER`, the other one in proportion.
fn small(width: usize, height: usize) -> (usize, usize) {
    if width <= height { (SHORTER, SHORTER * height / width) } else { (SHORTER * width / height, SHORTER) }
}

/// Writes the numbers of a photograph: all of red, row by row, then green, then blue.
pub(crate) fn write(photo: &Photo, out: &mut [f32]) {
    let (width, height) = small(photo.width, photo.height);
    let (columns, rows) = (taps(photo.width, width), taps(photo.height, height));
    let first = rows[0].first;
    let end = rows.iter().map(|taps| taps.first + taps.weights.len()).max().unwrap_or(first);
    // The rows that are needed, each with `SIDE` pixels.
    let mut narrow = vec![0.0_f32; (end - first) * SIDE * 3];
    for (row, narrow) in (first..end).zip(narrow.chunks_exact_mut(SIDE * 3)) {
        let pixels = &photo.rgb[row * photo.width * 3..(row + 1) * photo.width * 3];
        for (taps, out) in columns.iter().zip(narrow.chunks_exact_mut(3)) {
            for (weight, pixel) in taps.weights.iter().zip(pixels[taps.first * 3..].chunks_exact(3)) {
                out.iter_mut().zip(pixel).for_each(|(out, color)| *out += weight * f32::from(*color));
            }
        }
    }
    for (color, plane) in out.chunks_exact_mut(SIDE * SIDE).enumerate() {
        for (taps, line) in rows.iter().zip(plane.chunks_exact_mut(SIDE)) {
            line.fill(0.0);
            for (weight, row) in
                taps.weights.iter().zip(narrow[(taps.first - first) * SIDE * 3..].chunks_exact(SIDE * 3))
            {
                line.iter_mut().zip(row.chunks_exact(3)).for_each(|(out, pixel)| *out += weight * pixel[color]);
            }
            line.iter_mut().for_each(|value| *value = (*value / 255.0 - MEAN[color]) / DEVIATION[color]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(width: usize, height: usize, color: impl Fn(usize, usize) -> [u8; 3]) -> Vec<f32> {
        let rgb = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| color(x, y)).collect();
        let mut out = vec![f32::NAN; 3 * SIDE * SIDE];
        write(&Photo { width, height, rgb }, &mut out);
        out
    }

    #[test]
    fn one_color_stays_one_color() {
        for (width, height) in [(1, 1), (3, 1000), (224, 224), (257, 256), (1023, 40)] {
            let out = numbers(width, height, |_, _| [255, 0, 51]);
            for (color, expected) in [(0, 1.0), (1, 0.0), (2, 0.2)] {
                let expected = (expected - MEAN[color]) / DEVIATION[color];
                for value in &out[color * SIDE * SIDE..][..SIDE * SIDE] {
                    assert!((value - expected).abs() < 1e-4, "{width} x {height}: {value}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn a_photograph_of_the_right_size_is_cut_only() {
        let out = numbers(256, 300, |x, y| [(x % 256) as u8, (y % 256) as u8, 0]);
        for (y, x) in [(0, 0), (17, 200), (223, 223)] {
            let (red, green) = ((x + 16) as f32, ((y + 38) % 256) as f32);
            let value = |color: usize| (out[(color * SIDE + y) * SIDE + x] * DEVIATION[color] + MEAN[color]) * 255.0;
            assert!((value(0) - red).abs() < 1e-3 && (value(1) - green).abs() < 1e-3, "{y} {x}");
        }
    }

    #[test]
    fn half_the_size_is_a_mean() {
        // Columns 0 0 255 255 0 0 255 255: a triangle of four pixels has the weights 1 3 3 1.
        let out = numbers(512, 512, |x, _| [255 * (x / 2 % 2) as u8, 0, 0]);
        let value = |x: usize| (out[SIDE * SIDE / 2 + x] * DEVIATION[0] + MEAN[0]) * 8.0;
        assert!((value(0) - 2.0).abs() < 1e-3 && (value(1) - 6.0).abs() < 1e-3, "{} {}", value(0), value(1));
    }
}
