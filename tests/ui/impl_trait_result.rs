use kernpack::packed_func;

#[packed_func]
fn adder(a: i64) -> impl Fn(i64) -> i64 {
    move |b| a + b
}

fn main() {}
