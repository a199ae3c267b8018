use kernpack::Object;

pub struct Pixel;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    pub width: i64,
    pub first: Pixel,
    hidden: Pixel,
}

fn main() {}
