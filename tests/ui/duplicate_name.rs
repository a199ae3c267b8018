use kernpack::packed_func;

#[packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

mod floats {
    use kernpack::packed_func;

    #[packed_func(name = "add")]
    fn add_floats(a: f64, b: f64) -> f64 {
        a + b
    }

    #[packed_func(name = "floats.sum")]
    fn sum(a: f64, b: f64) -> f64 {
        a + b
    }

    #[packed_func(name = "floats.sum")]
    fn total(a: f64, b: f64) -> f64 {
        a + b
    }
}

fn main() {}
