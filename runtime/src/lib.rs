//! Kernpack runtime.
pub mod abi;
