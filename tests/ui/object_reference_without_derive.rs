use kernpack::{ObjRef, packed_func};

pub struct Image {
    pub width: i64,
}

#[packed_func]
fn width(_image: ObjRef<Image>) -> i64 {
    todo!()
}

fn main() {}
