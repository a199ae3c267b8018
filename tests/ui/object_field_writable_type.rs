use kernpack::{Field, Object};
use std::sync::atomic::AtomicI64;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(writable)]
    pub width: i64,
    #[field(writable)]
    pub title: String,
    #[field(writable)]
    pub fine: Field<i64>,
    #[field(writable)]
    pub fine_too: AtomicI64,
}

fn main() {}
