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
    #[base]
    #[base]
    shape: Shape,
    #[base]
    other: Shape,
}

fn main() {}
