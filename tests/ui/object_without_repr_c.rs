use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Histogram")]
pub struct Histogram {
    pub total: i64,
}

#[derive(Object)]
#[object(key = "imagekit.Wrapper")]
#[repr(transparent)]
pub struct Wrapper {
    pub total: i64,
}

fn main() {}
