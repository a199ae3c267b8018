use kernpack::packed_func;

trait Filter {
    #[packed_func]
    fn apply(x: i64) -> i64;
}

fn main() {}
