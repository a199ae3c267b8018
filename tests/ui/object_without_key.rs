use kernpack::Object;

#[derive(Object)]
#[repr(C)]
pub struct Histogram {
    pub total: i64,
}

#[derive(Object)]
#[object()]
#[repr(C)]
pub struct Counter {
    pub total: i64,
}

#[derive(Object)]
#[object = "imagekit.Other"]
#[repr(C)]
pub struct Other {
    pub total: i64,
}

fn main() {}
