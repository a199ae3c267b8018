#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func]
fn fill(values: &mut [u8], total: Option<&mut i64>) {}

fn main() {}
