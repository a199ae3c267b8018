use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn add<T: Into<i64>>(&self, n: T) -> i64 {
        self.count + n.into()
    }
}

fn main() {}
