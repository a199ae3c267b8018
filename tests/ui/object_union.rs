use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Bits")]
#[repr(C)]
pub union Bits {
    pub a: i64,
    pub b: f64,
}

fn main() {}
