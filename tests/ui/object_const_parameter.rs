use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.List")]
#[repr(C)]
pub struct List<const N: usize> {
    items: [i64; N],
}

fn main() {}
