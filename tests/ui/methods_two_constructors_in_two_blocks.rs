use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[init]
    pub fn new(count: i64) -> Self {
        Self { count }
    }
}

#[object_methods]
impl Counter {
    #[init]
    pub fn zero() -> Self {
        Self { count: 0 }
    }
}

fn main() {}
