use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int")]
pub enum Mode {
    Fast = 1,
    Exact = 1,
}

fn main() {}
