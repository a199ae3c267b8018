use kernpack::packed_func;

pub enum Mode {
    Fast,
    Exact,
}

#[packed_func]
fn blur(mode: Mode) -> i64 {
    mode as i64
}

fn main() {}
