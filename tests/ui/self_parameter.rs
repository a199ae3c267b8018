use kernpack::packed_func;

struct Counter {
    count: i64,
}

impl Counter {
    #[packed_func]
    fn count(&self) -> i64 {
        self.count
    }
}

fn main() {}
