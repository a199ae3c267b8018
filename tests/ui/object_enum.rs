use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode")]
#[repr(C)]
pub enum Mode {
    Fast,
    Exact,
}

fn main() {}
