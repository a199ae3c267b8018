use kernpack::packed_func;

#[packed_func("plus")]
fn one() {}

#[packed_func(name)]
fn two() {}

#[packed_func(name = plus, global = "no", crate = "kernpack")]
fn three() {}

#[packed_func(name("plus"))]
fn four() {}

fn main() {}
