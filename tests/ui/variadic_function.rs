use kernpack::packed_func;

#[packed_func]
unsafe extern "C" fn sum(count: i64, ...) -> i64 {
    count
}

fn main() {}
