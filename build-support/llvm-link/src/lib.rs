//! Links LLVM without an LLVM installation: the one inside the Rust toolchain in use, or else that
//! of the system.
//!
//! All of it happens in `build.rs`; kernpack-llvm-find contains the search. A crate that uses
//! LLVM-C functions (through `inkwell` or `llvm-sys`, built with their `no-llvm-linking` features)
//! must import this crate once, or rustc drops the link flags:
//!
//! ```
//! use kernpack_llvm_link as _;
//! ```
//!
//! A program is bound to the major version that it was linked with: the functions have versions
//! such as `LLVM_22.1`, and the file names of libraries do, too.
#![no_std]

/// The version of the linked LLVM, such as `22.1.2`.
pub const LLVM_VERSION: &str = env!("KERNPACK_LLVM_VERSION");

/// The file of the linked LLVM library.
pub const LLVM_LIBRARY: &str = env!("KERNPACK_LLVM_LIBRARY");

/// The warning for an LLVM that kernpack is not tested with. Empty for a tested one.
pub const LLVM_WARNING: &str = env!("KERNPACK_LLVM_WARNING");

/// Disables LLVM's search for checksums in loops, which takes minutes for some loops, for the rest
/// of the process. Has no effect if the linked LLVM does not have the switch.
pub fn skip_hash_recognition() {
    #[cfg(kernpack_llvm_switch)]
    {
        use core::sync::atomic::{AtomicBool, Ordering};
        unsafe extern "C" {
            #[link_name = "_ZN4llvm11DisableLIRP13HashRecognizeE"]
            static SWITCH: AtomicBool;
        }
        // SAFETY: the build script found this symbol in the linked library, with one byte: a `bool`
        // of LLVM that passes only read.
        unsafe { &SWITCH }.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants() {
        let major = LLVM_VERSION.split('.').next().and_then(|major| major.parse::<u32>().ok());
        assert!(major.is_some(), "{LLVM_VERSION}");
        assert_ne!(LLVM_LIBRARY, "");
    }
}
