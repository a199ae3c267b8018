use kernpack::{Object, constant, object_methods};

#[constant]
fn version() -> &'static str {
    "1.0"
}

#[constant(parallel)]
const LIMIT: i64 = 10;

#[constant]
const SIZES: [i64; 2] = [1, 2];

#[derive(Object)]
#[object(key = "ui.Level")]
#[repr(C)]
pub struct Level {
    pub x: i64,
}

#[object_methods]
impl Level {
    #[constant]
    pub const LOW: Self = Self { x: 1 };

    #[constant]
    pub fn high() -> i64 {
        2
    }
}

fn main() {}
