use kernpack::packed_func;

#[packed_func]
fn apply(f: fn(i64) -> i64, x: i64) -> i64 {
    f(x)
}

fn main() {}
