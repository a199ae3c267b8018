//! Lowering step by step: each pass does one thing and leaves an invariant.

mod context;

pub use context::{PassContext, PassOptions};
