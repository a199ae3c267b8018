use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(default = 1, repr = false)]
    #[field(default = 2)]
    pub width: i64,
}

fn main() {}
