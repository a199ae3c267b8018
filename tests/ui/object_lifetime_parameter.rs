use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Name")]
#[repr(C)]
pub struct Name<'a> {
    text: &'a str,
}

fn main() {}
