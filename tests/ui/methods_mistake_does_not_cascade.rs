use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[init]
    pub fn new(#[default(1)] count: i64) -> Self {
        Self { count }
    }

    #[getter]
    pub fn twice(&mut self) -> i64 {
        2 * self.count
    }

    #[operator(repr)]
    fn repr(&self) -> String {
        self.count.to_string()
    }
}

fn main() {}
