use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[getter]
    pub fn plus(&self, n: i64) -> i64 {
        self.count + n
    }
}

fn main() {}
