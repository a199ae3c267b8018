use kernpack::Object;

pub struct Plain;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle { radius: Plain },
    Empty,
}

fn main() {}
