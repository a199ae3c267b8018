//! Tensor expressions to machine code: what to compute (`te`), how (`schedule`), loops (`ir`), passes over them, and code generators.
//!
//! The nodes are objects: other languages build, read, print, compare, copy, serialize and rewrite them through their registered fields.

kernpack::library!();

pub mod arith;
#[cfg(feature = "llvm")]
mod build;
pub mod codegen;
pub mod error;
pub mod interpret;
pub mod intrin;
pub mod ir;
pub mod kernel;
mod packed;
pub mod pass;
pub mod rules;
pub mod schedule;
pub mod te;
pub mod text;

#[cfg(feature = "llvm")]
pub use build::{IntoIrModule, build};
pub use error::{CompileError, ErrorKind, Result, take_reported};
pub use kernel::{Kernel, KernelParam, KernelParamKind};
pub use pass::{PassContext, PassOptions};
pub use rules::TargetDescription;
