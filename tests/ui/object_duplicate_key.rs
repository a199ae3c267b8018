use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C)]
pub struct One {}

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C)]
pub struct Two {}

fn main() {}
