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

fn change(mut image: ObjRef<Image>) {
    if let Some(image) = image.get_mut() {
        image.width = 3;
    }
}

fn main() {
    change(image(1));
}
