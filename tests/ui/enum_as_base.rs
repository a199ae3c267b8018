use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle { radius: f64 },
    Empty,
}

#[derive(Object)]
#[object(key = "imagekit.Named")]
#[repr(C)]
pub struct Named {
    #[base]
    shape: Shape,
    pub name: String,
}

fn main() {}
