use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape", final)]
#[repr(C)]
pub struct Shape {
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Square")]
#[repr(C)]
pub struct Square {
    #[base]
    shape: Shape,
}

fn main() {}
