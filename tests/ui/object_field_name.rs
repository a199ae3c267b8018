use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    pub width: i64,
    #[field(name = "width")]
    pub inner_width: i64,
    #[field(name = "full height")]
    pub height: i64,
    #[field(name = "__depth")]
    pub depth: i64,
}

fn main() {}
