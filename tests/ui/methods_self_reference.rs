use kernpack::{ObjRef, Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    pub fn same(self: &ObjRef<Self>) -> ObjRef<Self> {
        self.clone()
    }
}

fn main() {}
