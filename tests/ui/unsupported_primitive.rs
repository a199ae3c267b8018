#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func]
fn first(letter: char, big: i128, list: Vec<Option<u128>>) -> char {
    letter
}

fn main() {}
