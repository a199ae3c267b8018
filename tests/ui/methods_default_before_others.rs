use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn add(&self, #[default(1)] n: i64, m: i64) -> i64 {
        self.count + n + m
    }
}

fn main() {}
