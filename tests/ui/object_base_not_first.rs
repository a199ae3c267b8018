use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C)]
pub struct Shape {
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Square")]
#[repr(C)]
pub struct Square {
    pub width: i64,
    #[base]
    shape: Shape,
}

fn main() {}
