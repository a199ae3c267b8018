use kernpack::packed_func;

#[packed_func]
fn add(a: i64, #[cfg(unix)] b: i64) -> i64 {
    a + b
}

fn main() {}
