use kernpack::packed_func;

#[packed_func]
fn repeat<const N: usize>(value: i64) -> i64 {
    value * N as i64
}

fn main() {}
