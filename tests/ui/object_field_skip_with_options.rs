use kernpack::{Field, Object};

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(skip, writable)]
    pub width: Field<i64>,
    #[field(repr = false, name = "h", skip)]
    pub height: i64,
    #[field(skip = false)]
    pub depth: i64,
}

fn main() {}
