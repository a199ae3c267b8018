//! A user's library: functions, an object, and kernels in C and LLVM IR.

#![deny(warnings)]

use kernpack::{packed_func, ObjRef, Object, Result, TensorView};

kernpack::library!();

/// A point with a name.
#[derive(Object)]
#[object(key = "downstream.Point")]
#[repr(C)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
}

/// Adds two integers.
#[packed_func]
pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Makes a point.
#[packed_func(name = "downstream.make_point")]
pub fn make_point(x: f64, y: f64) -> ObjRef<Point> {
    ObjRef::new(Point { x, y })
}

/// Gives a point's distance from the origin.
#[packed_func]
pub fn length(point: ObjRef<Point>) -> f64 {
    point.x.hypot(point.y)
}

/// Sums a tensor.
#[packed_func]
pub fn sum(values: TensorView<'_, f32>) -> f64 {
    values.to_vec().into_iter().map(f64::from).sum()
}

/// Reads a number.
#[packed_func]
pub fn parse(text: &str) -> Result<i64> {
    text.trim().parse().map_err(|_| kernpack::error!(ValueError, "'{}' is not a number", text))
}
