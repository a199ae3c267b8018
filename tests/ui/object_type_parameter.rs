use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.List")]
#[repr(C)]
pub struct List<T> {
    pub first: T,
}

fn main() {}
