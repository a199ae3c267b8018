use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn count(&self) -> i64 {
        self.count
    }

    #[method(name = "count")]
    pub fn number(&self) -> i64 {
        self.count
    }
}

fn main() {}
