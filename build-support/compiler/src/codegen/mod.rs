//! From lowered functions to machine code and C.

pub mod c;
#[cfg(feature = "llvm")]
pub mod llvm;
mod parts;
mod target;

pub use target::{RuntimeSymbols, Target};
