use kernpack::packed_func;

#[packed_func]
unsafe fn read(address: i64) -> i64 {
    address
}

fn main() {}
