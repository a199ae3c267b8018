use kernpack::Object;

#[derive(Object)]
#[object(enum = "int")]
pub enum Mode {
    Fast,
    Exact,
}

fn _is_still_a_value(mode: Mode) -> kernpack::Any {
    mode.into()
}

fn main() {}
