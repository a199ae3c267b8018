use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn time(&self) -> std::time::Instant {
        std::time::Instant::now()
    }
}

fn main() {}
