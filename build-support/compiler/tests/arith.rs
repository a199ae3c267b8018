//! The analyzer: canonical forms, proofs, bounds, divisibility, checked against evaluation.

#[path = "arith/acceptance.rs"]
mod acceptance;
#[path = "arith/cost.rs"]
mod cost;
#[path = "arith/evaluate.rs"]
mod evaluate;
#[path = "arith/facts.rs"]
#[allow(clippy::eq_op, clippy::erasing_op, reason = "what is simplified")]
mod facts;
#[path = "arith/fuzz.rs"]
mod fuzz;
#[path = "arith/integers.rs"]
mod integers;
#[path = "arith/limits.rs"]
mod limits;
#[path = "arith/rules.rs"]
#[allow(clippy::eq_op, clippy::erasing_op, reason = "what is simplified")]
mod rules;
#[path = "arith/shared.rs"]
mod shared;
#[path = "arith/solve.rs"]
mod solve;
#[path = "arith/statements.rs"]
mod statements;
#[path = "arith/wrapping.rs"]
mod wrapping;
