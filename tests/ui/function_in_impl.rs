use kernpack::packed_func;

struct Counter;

impl Counter {
    #[packed_func]
    fn zero() -> i64 {
        0
    }
}

fn main() {}
