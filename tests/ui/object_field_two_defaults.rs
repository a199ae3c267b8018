use kernpack::{Array, Object};

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(default = Array::new(), default_factory = Array::new)]
    pub sizes: Array<i64>,
}

fn main() {}
