//! A library like imagekit without kernels, for measurements of size: six packed functions, tensors
//! in and out, a callback, an object.

use kernpack::{Array, Function, ObjRef, Object, Result, Tensor, TensorView, TensorViewMut, ensure, packed_func};

kernpack::library!();

/// A histogram of one channel.
#[derive(Object)]
#[object(key = "sizelib.Histogram")]
#[repr(C)]
pub struct Histogram {
    /// The number of pixels that were counted.
    pub total: i64,
    /// The number of pixels for each value.
    pub bins: Array<i64>,
}

/// Adds two integers.
#[packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Greets by name.
#[packed_func]
fn greet(name: &str) -> String {
    format!("hello, {name}")
}

/// A gray picture of an RGB one.
#[packed_func]
fn to_gray(rgb: TensorView<'_, u8>) -> Result<Tensor> {
    let &[height, width, 3] = rgb.shape() else {
        return Err(kernpack::error!(ValueError, "expected shape (height, width, 3), got {:?}", rgb.shape()));
    };
    let gray = rgb
        .to_vec()
        .chunks_exact(3)
        .map(|p| ((77 * p[0] as u32 + 150 * p[1] as u32 + 29 * p[2] as u32) >> 8) as u8)
        .collect();
    Tensor::from_vec(gray, &[height, width])
}

/// Counts the values of a gray picture.
#[packed_func]
fn histogram(gray: TensorView<'_, u8>) -> ObjRef<Histogram> {
    let mut bins = vec![0i64; 256];
    for value in gray.to_vec() {
        bins[value as usize] += 1;
    }
    ObjRef::new(Histogram { total: bins.iter().sum(), bins: bins.into_iter().collect() })
}

/// Inverts a picture in place.
#[packed_func]
fn invert(mut picture: TensorViewMut<'_, u8>) -> Result<()> {
    for value in picture.as_slice_mut()? {
        *value = 255 - *value;
    }
    Ok(())
}

/// Calls a function once per row number, and sums what it returns.
#[packed_func]
fn sum_rows(rows: i64, row: Function) -> Result<f64> {
    ensure!(rows >= 0, ValueError, "rows must not be negative, got {}", rows);
    (0..rows).map(|index| row.call_as::<f64>((index,))).sum()
}
