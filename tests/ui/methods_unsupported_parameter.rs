use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn add(&self, n: std::time::Instant) -> i64 {
        self.count + n.elapsed().as_secs() as i64
    }
}

fn main() {}
