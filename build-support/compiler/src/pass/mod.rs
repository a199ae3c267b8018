//! Lowering step by step: each pass does one thing and leaves an invariant.

mod context;
pub mod pipeline;
pub mod remove_no_op;
pub mod rewrite_unsafe_select;
pub mod unroll_loop;
pub mod vectorize_loop;

pub use context::{PassContext, PassContextNode, PassOptions};
