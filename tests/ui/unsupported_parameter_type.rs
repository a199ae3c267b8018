#![allow(unused_variables)]

use kernpack::packed_func;

struct Pixel;

#[packed_func]
fn brightness(x: i64, pixel: Pixel, row: Vec<Pixel>) -> i64 {
    x
}

fn main() {}
