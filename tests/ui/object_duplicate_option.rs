use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[object(key = "imagekit.Other")]
#[repr(C)]
pub struct Histogram {
    pub total: i64,
}

fn main() {}
