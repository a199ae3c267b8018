use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mask", enum = "int")]
#[repr(u64)]
pub enum Mask {
    None,
    Top = 1 << 63,
}

fn main() {}
