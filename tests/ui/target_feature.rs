use kernpack::packed_func;

#[packed_func]
#[target_feature(enable = "avx2")]
fn sum(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {}
