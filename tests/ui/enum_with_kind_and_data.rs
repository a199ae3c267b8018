use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int")]
pub enum Mode {
    Fast,
    Exact { digits: i64 },
}

fn main() {}
