//! The analyzer: canonical forms, proofs, bounds, divisibility, checked against evaluation.

#[path = "arith/acceptance.rs"]
mod acceptance;
#[path = "arith/evaluate.rs"]
mod evaluate;
#[path = "arith/fuzz.rs"]
mod fuzz;
