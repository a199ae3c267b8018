use kernpack::packed_func;

#[packed_func]
fn largest<T: Ord>(values: Vec<T>, other: T) -> i64 {
    0
}

fn main() {}
