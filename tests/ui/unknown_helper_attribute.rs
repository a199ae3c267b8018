use kernpack::{Object, packed_func};

#[packed_func]
fn scaled(x: f64, #[defualt(0.5)] gain: f64) -> f64 {
    x * gain
}

#[derive(Object)]
#[object(key = "imagekit.Point")]
#[repr(C)]
pub struct Point {
    #[feild(writable)]
    pub x: f64,
}

fn main() {}
