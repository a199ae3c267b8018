use kernpack::Object;

#[derive(Object)]
#[object(key = "Histogram")]
#[repr(C)]
pub struct One {}

#[derive(Object)]
#[object(key = "image kit.Histogram")]
#[repr(C)]
pub struct Two {}

#[derive(Object)]
#[object(key = "imagekit.2d")]
#[repr(C)]
pub struct Three {}

#[derive(Object)]
#[object(key = "ffi.Histogram")]
#[repr(C)]
pub struct Four {}

#[derive(Object)]
#[object(key = "")]
#[repr(C)]
pub struct Five {}

fn main() {}
