use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn same_as(&self, other: &Self) -> bool {
        self.count == other.count
    }

    #[method(name = "__lt__")]
    pub fn less(&self, other: &Self) -> bool {
        self.count < other.count
    }
}

fn main() {}
