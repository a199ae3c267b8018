use kernpack::{ObjRef, Object, packed_func};

#[derive(Object)]
#[object(key = "Image")]
#[repr(C)]
pub struct Image {
    pub width: i64,
}

#[packed_func]
fn image(width: i64) -> ObjRef<Image> {
    ObjRef::new(Image { width })
}

fn main() {}
