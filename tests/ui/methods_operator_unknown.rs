use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[operator(add)]
    pub fn add(&self, other: &Self) -> Self {
        Self { count: self.count + other.count }
    }
}

fn main() {}
