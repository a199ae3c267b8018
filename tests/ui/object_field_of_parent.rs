use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Thing")]
#[repr(C)]
pub struct Thing {
    pub id: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Shape")]
#[repr(C)]
pub struct Shape {
    #[base]
    thing: Thing,
    pub sides: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Square")]
#[repr(C)]
pub struct Square {
    #[base]
    shape: Shape,
    pub sides: f64,
    #[field(name = "id")]
    pub number: i64,
    pub side: f64,
}

fn main() {}
