#![allow(unused_variables)]

use kernpack::packed_func;

#[packed_func(nam = "x", global = 1)]
async unsafe fn one<T>(_: &mut i64, text: &dyn Fn(), (a, b): (i64, fn())) -> fn() {
    todo!()
}

#[packed_func]
fn two(self_: impl Copy) -> i64 {
    0
}

#[packed_func]
fn fine(a: i64) -> i64 {
    one_is_still_there();
    a
}

fn one_is_still_there() {
    let _ = two(1);
}

fn main() {}
