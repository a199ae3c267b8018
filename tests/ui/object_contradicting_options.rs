use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape", final, child_slots = 4)]
#[repr(C)]
pub struct Shape {
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Handle", create = false, init = true)]
#[repr(C)]
pub struct Handle {
    pub number: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Color", enum = "int")]
#[repr(C)]
pub struct Color {
    pub red: f64,
}

fn main() {}
