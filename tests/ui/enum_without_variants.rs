use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mode", enum = "int")]
pub enum Mode {}

fn main() {}
