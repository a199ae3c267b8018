//! Generation of machine code and C from lowered functions.

pub mod c;
#[cfg(feature = "llvm")]
pub mod llvm;
mod parts;
mod target;

pub use target::{RuntimeSymbols, Target};
