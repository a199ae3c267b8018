use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(u8)]
pub enum Shape {
    Circle { radius: f64 },
    Empty,
}

fn main() {}
