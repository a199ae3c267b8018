use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Tree")]
#[repr(C, u32)]
pub enum Tree<T> {
    Leaf { value: T },
    Empty,
}

fn main() {}
