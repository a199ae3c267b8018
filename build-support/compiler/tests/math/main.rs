//! Math functions as arithmetic: how far they are from libm, in units of the last place, with and without fused multiplication.
//!
//! The formulas become C and are compiled with `cc`. `cargo test` looks at 1 in 101 floats; all of them, and the speed, by
//! `cargo test --release -p kernpack-compiler --test math -- --ignored --nocapture`.

mod accuracy;
mod lanes;
mod llvm;
mod program;
mod speed;
