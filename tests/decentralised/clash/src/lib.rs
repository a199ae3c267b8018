//! A library with another point type than that of `shapes`, and with a packed module.

use kernpack::module::ModuleImpl;
use kernpack::{Bytes, Function, Module, ObjRef, Object, Result};

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

/// The packed module: its function returns its bytes.
struct Table(Bytes);

impl ModuleImpl for Table {
    fn kind(&self) -> &str {
        "clash.table"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let bytes = self.0.clone();
        Ok((name == "bytes").then(|| Function::from_fn(move || bytes.clone())))
    }
}

/// Restores the module.
#[kernpack::packed_func(name = "ffi.Module.load_from_bytes.clash.table")]
fn load_table(bytes: Bytes) -> Module {
    Module::new(Table(bytes))
}
