use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Shape", structural = "graph")]
#[repr(C)]
pub struct Shape {
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Square", structural = dag, child_slots = "many")]
#[repr(C)]
pub struct Square {
    pub sides: i64,
}

fn main() {}
