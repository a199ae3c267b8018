use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Nothing")]
#[repr(C)]
pub struct Nothing;

fn main() {}
