use kernpack::Object;

#[derive(Object)]
#[object(key = "imagekit.Mask", enum = "int")]
#[repr(u64)]
pub enum Mask {
    None,
    All = 0xffff_ffff_ffff_ffff,
}

fn main() {}
