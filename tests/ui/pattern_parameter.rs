#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func]
fn area((width, height): (i64, i64), ref scale: i64) -> i64 {
    width * height
}

fn main() {}
