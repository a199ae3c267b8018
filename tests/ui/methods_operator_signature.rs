use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[operator(eq)]
    pub fn equal(&self) -> bool {
        self.count == 0
    }
}

fn main() {}
