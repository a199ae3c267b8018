use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
#[repr(C, packed(4))]
pub struct Histogram {
    pub total: i64,
}

fn main() {}
