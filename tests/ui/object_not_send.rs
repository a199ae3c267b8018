use kernpack::Object;

use std::rc::Rc;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    shared: Rc<i64>,
}

fn main() {}
