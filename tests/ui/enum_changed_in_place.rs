use kernpack::{ObjRef, Object};

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle { radius: f64 },
    Empty,
}

fn empty(shape: &mut ObjRef<Shape>) {
    if let Some(shape) = shape.get_mut() {
        *shape = Shape::Empty;
    }
}

fn main() {}
