use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "ui.Del")]
#[repr(C)]
pub struct Del {
    pub value: i64,
}

#[object_methods]
impl Del {
    #[method(name = "__del__")]
    pub fn close(&self) {}

    #[method(name = "__setattr__")]
    pub fn call(&self) {}
}

fn main() {}
