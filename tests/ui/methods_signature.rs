use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "ui.Signed", init = false)]
#[repr(C)]
pub struct Signed {
    pub x: i64,
}

#[object_methods]
impl Signed {
    #[init(signature = "(self, x)")]
    pub fn new(x: i64) -> Self {
        Self { x }
    }

    #[method(signature = "(by, /, /)")]
    pub fn moved(&self, by: i64) -> i64 {
        self.x + by
    }

    #[getter(signature = "()")]
    pub fn half(&self) -> i64 {
        self.x / 2
    }
}

fn main() {}
