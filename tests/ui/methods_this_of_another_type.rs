use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn add(this: i64, other: i64) -> i64 {
        this + other
    }
}

fn main() {}
