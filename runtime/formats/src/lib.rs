//! What travels between libraries, providers and build scripts, as data: the structs of the C ABI, and the binary formats of import trees and
//! device images. Nothing here runs, and nothing is registered: `kernpack` is the runtime over it, and shows all of this under its own
//! names; `kernpack-build` needs no more than this, so that a build script does not wait for a runtime.

#![warn(missing_docs)]

pub mod abi;
pub mod device_image;
pub mod export;
pub mod library_bin;
pub mod stream;
#[cfg(feature = "zstd")]
pub mod zstd;

/// What stands before the kind of an image that a build script packs: `kernpack.cuda` has the bytes of a `cuda` module, and is restored
/// as one. The library brings the loader of that kind, and so never takes the name of Apache TVM's, whose own CUDA runtime would end
/// the process when it loads later and finds `ffi.Module.load_from_bytes.cuda` taken.
pub const OWN_KIND_PREFIX: &str = "kernpack.";
