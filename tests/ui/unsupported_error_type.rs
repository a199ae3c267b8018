use kernpack::packed_func;

struct Failure;

#[packed_func]
fn check(x: i64) -> Result<i64, Failure> {
    Ok(x)
}

fn main() {}
