use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[field(repr = false)]
#[repr(C)]
pub struct Shape {
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Square")]
#[repr(C)]
pub struct Square {
    #[base]
    #[field(skip)]
    shape: Shape,
}

fn main() {}
