use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[base]
#[repr(C)]
pub struct Shape {
    #[base(i64)]
    sides: i64,
}

fn main() {}
