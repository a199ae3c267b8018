use kernpack::Object;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    pub width: i64,
    shared: Rc<i64>,
    count: Cell<i64>,
    list: RefCell<Vec<i64>>,
    pixels: *mut u8,
}

fn main() {}
