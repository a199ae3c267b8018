use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Square")]
#[repr(C)]
pub struct Square {
    #[base]
    sides: i64,
}

fn main() {}
