use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "float")]
pub enum Mode {
    Fast,
    Exact,
}

fn main() {}
