use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram", parent = "ffi.Object")]
#[repr(C)]
pub struct Histogram {
    #[object(read_only)]
    pub total: i64,
}

fn main() {}
