//! Math functions as arithmetic: their errors compared with libm, in units in the last place, with
//! and without fused multiplication.
//!
//! The formulas are generated as C and compiled with `cc`. `cargo test` checks 1 in 101 floats; for
//! all of them, and the speed, run
//! `cargo test -p kernpack-compiler --test math -- --ignored --nocapture [NAME]`, where `NAME` is
//! `all_floats_are`, `all_floats_without_fma`, `many_doubles` or another test, and the variable
//! `MATH_ONLY=sin,cos` selects functions.

mod accuracy;
mod lanes;
mod llvm;
mod program;
mod speed;
