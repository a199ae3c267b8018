use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[operator(hash)]
    pub fn hash(&self) -> String {
        self.count.to_string()
    }
}

fn main() {}
