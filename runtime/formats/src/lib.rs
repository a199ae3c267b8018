//! The data that libraries, providers and build scripts exchange: the structs of the C ABI, and the
//! binary formats of import trees and device images.
//!
//! This crate does not run code and does not register anything. `kernpack` is the runtime on top of
//! it and reexports all of it. `kernpack-build` needs only this crate, so that a build script does
//! not wait for the runtime to compile.

#![warn(missing_docs)]

pub mod abi;
pub mod device_image;
pub mod export;
pub mod library_bin;
pub mod stream;
pub mod weights_file;
#[cfg(feature = "zstd")]
pub mod zstd;

/// Prefix of the kind of an image that a build script packs: `kernpack.cuda` contains the bytes of
/// a `cuda` module and is restored as one.
///
/// The library includes the loader of that kind. The prefix keeps it from taking the name of Apache
/// TVM's loader: if Apache TVM's CUDA runtime is loaded later and finds
/// `ffi.Module.load_from_bytes.cuda` taken, it ends the process.
pub const OWN_KIND_PREFIX: &str = "kernpack.";
