use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[type_attr(name = "__ffi_init__")]
    pub fn make(count: i64) -> Self {
        Self { count }
    }
}

fn main() {}
