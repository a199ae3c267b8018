use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(writeable)]
    pub width: i64,
    #[field(kw_only = true, repr = "off")]
    pub height: i64,
    #[field = "depth"]
    pub depth: i64,
}

fn main() {}
