use kernpack::packed_func;

#[packed_func]
struct Histogram {
    total: i64,
}

#[packed_func]
impl Histogram {
    fn total(&self) -> i64 {
        self.total
    }
}

#[packed_func]
mod filters {}

#[packed_func]
enum Mode {
    Fast,
}

#[packed_func]
const LIMIT: i64 = 3;

fn main() {}
