//! From lowered functions to machine code and C.

pub mod c;
#[cfg(feature = "llvm")]
pub mod llvm;
mod target;

pub use target::{RuntimeSymbols, Target};
