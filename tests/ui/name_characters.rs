use kernpack::packed_func;

#[packed_func(name = "add two")]
fn one() {}

#[packed_func(name = "add\0")]
fn two() {}

#[packed_func(name = "add-two")]
fn three() {}

#[packed_func(name = "imagekit..add")]
fn four() {}

#[packed_func]
fn größe() {}

fn main() {}
