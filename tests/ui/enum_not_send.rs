use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C, u32)]
pub enum Shape {
    Circle {
        #[field(skip)]
        shared: std::rc::Rc<f64>,
    },
    Empty,
}

fn main() {}
