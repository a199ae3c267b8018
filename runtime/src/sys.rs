//! Below the safe interface: the C ABI as Rust types, and our own implementation of it.
//!
//! For programs that call the C functions, that write or read the layouts, or that test an implementation. No other crate needs it.
//! `abi` follows the C headers; `embedded` may change with every release.

#[doc(inline)]
pub use kernpack_core::{abi, embedded};
