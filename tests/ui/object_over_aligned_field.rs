use kernpack::Object;

#[repr(align(16))]
pub struct Wide(i64);

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C)]
pub struct Histogram {
    wide: Wide,
}

fn main() {}
