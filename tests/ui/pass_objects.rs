//! Structs that `#[derive(Object)]` accepts.
#![deny(warnings, non_ascii_idents)]
#![forbid(unsafe_code)]

use kernpack::{ObjRef, Object, packed_func};

/// A shape.
#[derive(Object)]
#[object(key = "pass_objects.Shape")]
#[repr(C)]
pub struct Shape {
    /// The number of sides.
    pub sides: i64,
    pub r#type: String,
    secret: std::sync::Mutex<Vec<u8>>,
}

#[derive(Object)]
#[object(key = "pass_objects.Square")]
#[repr(C)]
pub struct Square {
    #[base]
    shape: Shape,
    pub width: f64,
}

#[derive(Object)]
#[object(key = "pass_objects.Nothing")]
#[repr(C)]
pub struct Nothing {}

#[packed_func]
fn square(width: f64) -> ObjRef<Square> {
    let shape = Shape { sides: 4, r#type: "square".to_owned(), secret: Default::default() };
    ObjRef::new(Square { shape, width })
}

#[packed_func]
fn width(square: ObjRef<Square>) -> f64 {
    square.width
}

fn main() {
    let square = square(2.0);
    assert_eq!(square.sides, 4);
    assert_eq!(square.secret.lock().unwrap().len(), 0);
    assert_eq!(width(square), 2.0);
    let _ = Nothing {};
    assert_eq!(<Square as Object>::TYPE_KEY, "pass_objects.Square");
}
