use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
pub enum Shape {
    Circle { radius: f64 },
    Empty,
}

fn main() {}
