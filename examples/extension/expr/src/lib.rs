//! Expressions as objects: a variable, a constant and a sum, each with the type of its value.
//!
//! A separate library: `libexpr.so` contains the types and the functions that create expressions.
//! `examples/extension` is another library, which uses the Rust types of this crate. With both in
//! one process there is one `expr.Add`, regardless of its creator.

kernpack::library!();

mod node;
mod text;

pub use node::{Add, Expr, IntImm, Var, add};
pub use text::text;
