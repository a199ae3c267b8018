//! Compiles kernels in C, C++, LLVM IR and CUDA from `build.rs` into the crate's own shared library.
//!
//! ```no_run
//! // build.rs
//! fn main() -> kernpack_build::Result<()> {
//!     kernpack_build::Library::new()
//!         .c(["kernels/blur.c"])
//!         .llvm_ir(["kernels/sobel.ll"])
//!         .cuda(["kernels/edges.cu"])
//!         .build()
//! }
//! ```
//!
//! A host kernel is a function with the packed calling convention, named `__tvm_ffi_<name>`; C includes
//! `<kernpack/kernel.h>` for the types. [`Library::build`] reads the names off the objects, links the objects into the
//! library so that every host can call them, and writes the Rust file that `kernpack::library!()` includes: the module
//! `kernels` with one item per kernel. CUDA kernels are `extern "C" __global__` functions; their images travel inside
//! the library as imported modules.
//!
//! The build script runs again when an input, an included header or a variable that matters changes, and else never.

mod architecture;
#[cfg(any(feature = "llvm", feature = "nvrtc"))]
mod assembler;
mod c;
mod cache;
mod cuda;
mod cuda_options;
mod cuda_source;
mod digest;
mod environment;
mod error;
mod generate;
mod gpu;
mod host;
mod library;
#[cfg(feature = "llvm")]
mod llvm;
#[cfg(feature = "llvm")]
mod llvm_module;
#[cfg(feature = "llvm")]
mod llvm_packer;
mod nvcc;
#[cfg(feature = "llvm")]
mod nvptx;
#[cfg(feature = "nvrtc")]
mod nvrtc;
mod object_packer;
mod pack;
mod payload;
mod permits;
mod program;
mod ptx;
mod session;
mod step;
mod symbols;
mod target;
mod tool;
mod toolkit;
mod track;
mod watch;

pub use cuda_options::{CudaCompiler, CudaOptions};
pub use error::{Error, Result};
pub use host::host;
pub use library::Library;
#[cfg(feature = "llvm")]
pub use llvm_module::{llvm_module, llvm_module_for, llvm_module_with};
#[cfg(feature = "llvm")]
pub use llvm_packer::LlvmPacker;
pub use object_packer::ObjectPacker;
pub use payload::Payload;

/// The LLVM bindings that [`Library::llvm`] hands out.
#[cfg(feature = "llvm")]
pub use inkwell;
