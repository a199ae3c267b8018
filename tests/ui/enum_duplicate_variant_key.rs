use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle { radius: f64 },
    #[object(key = "imagekit.Shape.Circle")]
    Disk { radius: f64 },
}

fn main() {}
