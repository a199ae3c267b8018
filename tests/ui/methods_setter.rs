use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[setter]
    pub fn set_count(&self) {}

    #[setter]
    pub fn set_step(&self, step: i64) -> i64 {
        step
    }

    pub fn size(&self) -> i64 {
        self.count
    }

    #[setter]
    pub fn set_size(&self, _size: i64) {}
}

fn main() {}
