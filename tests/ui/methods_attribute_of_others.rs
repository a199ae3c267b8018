use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Point")]
#[repr(C)]
pub struct Point {
    pub x: f64,
}

#[object_methods]
impl Point {
    #[new]
    pub fn make(x: f64) -> Self {
        Self { x }
    }

    #[staticmethod]
    pub fn origin() -> Self {
        Self { x: 0.0 }
    }

    #[geter]
    pub fn length(&self) -> f64 {
        self.x
    }

    #[propery]
    pub fn width(&self) -> f64 {
        self.x
    }

    pub fn moved(&self, #[defualt(1.0)] by: f64) -> f64 {
        self.x + by
    }
}

fn main() {}
