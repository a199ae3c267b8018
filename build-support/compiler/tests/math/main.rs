//! Math functions as arithmetic: how far they are from libm, in units of the last place, with and without fused multiplication.
//!
//! The formulas become C and are compiled with `cc`. `cargo test` looks at 1 in 101 floats; all of them, and the speed, by
//! `cargo test -p kernpack-compiler --test math -- --ignored --nocapture [all_floats_are | all_floats_without_fma | many_doubles | ..]`, where the variable
//! `MATH_ONLY=sin,cos` names functions.

mod accuracy;
mod lanes;
mod llvm;
mod program;
mod speed;
