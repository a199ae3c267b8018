//! The layer below the safe interface: the C ABI as Rust types, our own implementation of it, and
//! the choice of the implementation that serves the process.
//!
//! For programs that call the C functions, that write or read the layouts, or that test an
//! implementation. No other crate needs it. `abi` follows the C headers; `embedded` may change with
//! every release.

#[doc(inline)]
pub use kernpack_core::{abi, embedded, provider};
