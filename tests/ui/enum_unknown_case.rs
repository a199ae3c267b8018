use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int", rename_all = "Title Case")]
pub enum Mode {
    Fast,
}

fn main() {}
