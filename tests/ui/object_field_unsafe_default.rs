use kernpack::Object;

unsafe fn bytes() -> Vec<u8> {
    vec![]
}

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(skip, default = bytes())]
    hidden: Vec<u8>,
}

fn main() {}
