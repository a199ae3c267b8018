use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

pub struct Pair<T>(T);

#[object_methods]
impl<T> Pair<T> {
    pub fn first(&self) -> i64 {
        1
    }
}

fn main() {}
