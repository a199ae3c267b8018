#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func]
fn first(half: f16, list: Vec<Option<f128>>) -> f16 {
    half
}

fn main() {}
