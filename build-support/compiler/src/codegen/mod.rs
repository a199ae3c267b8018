//! Generation of machine code and C from lowered functions.

pub mod c;
#[cfg(feature = "llvm")]
pub mod llvm;
mod number;
mod parts;
pub mod source;
mod target;

pub use target::{RuntimeSymbols, Target};
