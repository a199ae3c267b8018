use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int", final, create = false)]
pub enum Mode {
    Fast,
    #[field(skip)]
    Exact,
}

#[derive(Object)]
#[object(key = "imagekit.Shape", final, child_slots = 3, rename_all = "UPPERCASE")]
#[repr(C, u32)]
pub enum Shape {
    Circle { #[base] radius: f64 },
    #[object(name = "empty")]
    Empty,
}

fn main() {}
