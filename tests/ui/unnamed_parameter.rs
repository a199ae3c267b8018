use kernpack::packed_func;

#[packed_func]
fn ignore(_: i64) -> i64 {
    0
}

fn main() {}
