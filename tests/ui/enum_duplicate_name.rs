use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "str")]
pub enum Mode {
    Fast,
    #[object(name = "Fast")]
    Quick,
}

fn main() {}
