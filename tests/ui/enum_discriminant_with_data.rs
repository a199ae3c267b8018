use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle { radius: f64 } = 3,
    Empty,
}

fn main() {}
