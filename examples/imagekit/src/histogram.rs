//! The distribution of gray levels, as an object that hosts hold and read field by field.

use kernpack::{Array, ObjRef, Object, Result, TensorView, ensure, packed_func};

use crate::image;

/// Number of bins, one per whole gray level.
const LEVELS: usize = 256;

/// Statistics that one pass over an image computes.
#[derive(Object)]
#[object(key = "imagekit.Statistics")]
#[repr(C)]
pub struct Statistics {
    /// Number of pixels.
    pub total: i64,
    /// Mean gray level.
    pub mean: f64,
    /// Least gray level.
    pub min: f64,
    /// Greatest gray level.
    pub max: f64,
}

/// Statistics with the number of pixels per gray level.
#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C)]
pub struct Histogram {
    #[base]
    base: Statistics,
    /// 256 counts: bin i counts the pixels from i up to, but not including, i + 1.
    pub bins: Array<i64>,
}

/// Counts the gray levels of an image.
///
/// `gray` is float32 of shape (height, width) with values from 0 up to, but not including, 256; an
/// image without pixels or with another value is an error.
#[packed_func]
pub fn histogram(gray: TensorView<f32>) -> Result<ObjRef<Histogram>> {
    image::size(gray.shape())?;
    let mut bins = vec![0_i64; LEVELS];
    let (mut sum, mut min, mut max) = (0.0_f64, f32::INFINITY, f32::NEG_INFINITY);
    for (position, &value) in gray.to_vec().iter().enumerate() {
        ensure!(
            (0.0..256.0).contains(&value),
            ValueError,
            "pixel {position} is {value}, not a gray level from 0 to 255"
        );
        bins[value as usize] += 1;
        sum += f64::from(value);
        min = min.min(value);
        max = max.max(value);
    }
    let total: i64 = bins.iter().sum();
    ensure!(total > 0, ValueError, "the image has no pixels");
    let base = Statistics { total, mean: sum / total as f64, min: min.into(), max: max.into() };
    Ok(ObjRef::new(Histogram { base, bins: bins.into_iter().collect() }))
}

/// The threshold that separates an image into dark and light pixels with the greatest difference
/// between them (Otsu's method).
///
/// Pixels of a level up to the result are dark.
#[packed_func]
pub fn otsu_threshold(histogram: ObjRef<Histogram>) -> i64 {
    let counts: Vec<f64> = histogram.bins.iter().map(|count| count as f64).collect();
    let all: f64 = counts.iter().sum();
    let all_sum: f64 = counts.iter().enumerate().map(|(level, count)| level as f64 * count).sum();
    let (mut dark, mut dark_sum) = (0.0, 0.0);
    let (mut best, mut best_level) = (0.0, 0);
    for (level, count) in counts.iter().enumerate() {
        dark += count;
        dark_sum += level as f64 * count;
        let light = all - dark;
        if dark == 0.0 || light == 0.0 {
            continue;
        }
        let difference = dark_sum / dark - (all_sum - dark_sum) / light;
        let between_classes = dark * light * difference * difference;
        if between_classes > best {
            (best, best_level) = (between_classes, level as i64);
        }
    }
    best_level
}

/// Michelson contrast, (max - min) / (max + min): 0 for a uniform image, 1 if there is black.
///
/// Accepts any `imagekit.Statistics`, including a histogram.
#[packed_func]
pub fn contrast(statistics: ObjRef<Statistics>) -> f64 {
    let sum = statistics.max + statistics.min;
    if sum == 0.0 { 0.0 } else { (statistics.max - statistics.min) / sum }
}
