use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[operator(le)]
    pub fn at_most(&self, other: i64) -> std::cmp::Ordering {
        self.count.cmp(&other)
    }

    #[operator(ge)]
    pub fn at_least(&self) -> bool {
        true
    }
}

fn main() {}
