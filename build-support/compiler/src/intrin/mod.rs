//! Functions of the CPU that LLVM and C have no vector instruction for, as plain arithmetic.

mod floor_div;
mod formula;

pub use floor_div::lower_floor_div;
