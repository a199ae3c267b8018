//! A library whose point is another one than that of `shapes`.

use kernpack::{ObjRef, Object};

kernpack::library!();

/// A point in space.
#[derive(Object)]
#[object(key = "shapes.Point")]
#[repr(C)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// To the viewer.
    pub z: f64,
}

/// Makes a point.
#[kernpack::packed_func]
fn point(x: f64, y: f64, z: f64) -> ObjRef<Point> {
    ObjRef::new(Point { x, y, z })
}

/// Reads a coordinate.
#[kernpack::packed_func]
fn z(point: ObjRef<Point>) -> f64 {
    point.z
}
