//! Links LLVM 22 without an LLVM installation: the one inside the Rust toolchain in use, else a system LLVM 22.
//!
//! All of it happens in `build.rs`. A crate that uses LLVM-C functions (through `inkwell` or `llvm-sys`, built with
//! their `no-llvm-linking` features) names this crate once, or rustc drops the link flags:
//!
//! ```
//! use kernpack_llvm_link as _;
//! ```
#![no_std]

/// Major version of the LLVM that is linked.
pub const LLVM_MAJOR: u32 = 22;

/// Where the linked LLVM library is.
pub const LLVM_LIBRARY: &str = env!("KERNPACK_LLVM_LIBRARY");
