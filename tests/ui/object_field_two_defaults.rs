use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(default = Vec::new(), default_factory = Vec::new)]
    pub sizes: Vec<i64>,
}

fn main() {}
