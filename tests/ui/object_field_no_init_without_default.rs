use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Image")]
#[repr(C)]
pub struct Image {
    #[field(init = false)]
    pub width: i64,
    #[field(kw_only, init = false, default = 3)]
    pub height: i64,
}

// Nothing is wrong without a generated constructor.
#[derive(Object)]
#[object(key = "imagekit.Layer", init = false)]
#[repr(C)]
pub struct Layer {
    #[field(init = false)]
    pub width: i64,
}

fn main() {}
