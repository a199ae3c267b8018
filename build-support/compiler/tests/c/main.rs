//! C source: compiled with `cc`, run, and compared with the semantics of the program. Everything
//! runs with undefined behavior trapped.

mod casts;
mod compile;
mod control;
#[path = "../arith/evaluate.rs"]
#[allow(dead_code, reason = "shared with the tests of the analyzer")]
mod evaluate;
#[path = "../arith/integers.rs"]
#[allow(dead_code, reason = "shared with the tests of the analyzer")]
mod integers;
mod library;
mod operations;
mod packed;
#[path = "../codegen/rounding.rs"]
#[allow(dead_code, reason = "shared with the tests of compiled code")]
mod rounding;
