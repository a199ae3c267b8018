use kernpack::Object;

fn title() -> &'static str {
    "untitled"
}

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(default = 1.5)]
    pub width: i64,
    #[field(default = "untitled")]
    pub title: String,
    #[field(default_factory = title)]
    pub name: String,
    #[field(default_factory = || "untitled")]
    pub text: String,
    #[field(default_factory = 3)]
    pub number: i64,
    #[field(skip, default = 7)]
    hidden: Vec<u8>,
}

fn main() {}
