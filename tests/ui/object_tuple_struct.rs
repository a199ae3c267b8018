use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Pair")]
#[repr(C)]
pub struct Pair(pub i64, pub i64);

fn main() {}
