use kernpack::packed_func;

#[packed_func(name = "")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {}
