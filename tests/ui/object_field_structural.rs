use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(structural = "none")]
    pub width: i64,
    #[field(structural = false)]
    pub height: i64,
}

fn main() {}
