use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C)]
#[repr(align(64))]
pub struct Histogram {
    pub total: i64,
}

fn main() {}
