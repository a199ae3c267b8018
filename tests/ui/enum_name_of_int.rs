use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int")]
pub enum Mode {
    #[object(name = "very fast")]
    Fast,
}

fn main() {}
