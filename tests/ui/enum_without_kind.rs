use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode")]
pub enum Mode {
    Fast,
    Exact,
}

fn main() {}
