extern crate kernpack as renamed;

mod kernpack {
    //! Shadows the crate's name.
}

mod exports {
    pub use crate::renamed::*;
}

#[renamed::packed_func(crate = renamed)]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[exports::packed_func(crate = crate::exports, name = "sub")]
fn subtract(a: i64, b: i64) -> exports::Result<i64> {
    Ok(a - b)
}

#[derive(renamed::Object)]
#[object(key = "pass_renamed.Point", crate = exports)]
#[repr(C)]
pub struct Point {
    pub x: i64,
}

fn main() {
    assert_eq!(add(1, 2), 3);
    assert!(matches!(subtract(3, 2), Ok(1)));
    let _ = Point { x: 1 };
}
