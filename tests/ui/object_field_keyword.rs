use kernpack::Object;

#[derive(Object)]
#[object(key = "ui.Keyword")]
#[repr(C)]
pub struct Keyword {
    pub lambda: i64,
    #[field(name = "self")]
    pub other: i64,
    #[field(init = false, default = 1)]
    pub yield_: i64,
    pub fine: i64,
}

fn main() {}
