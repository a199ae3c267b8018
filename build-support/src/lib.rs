//! Compiles kernels in C, C++, LLVM IR and CUDA from `build.rs` into the crate's own shared
//! library.
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
//! A CPU kernel is a function with the packed calling convention, named `__tvm_ffi_<name>`; C
//! includes `<kernpack/kernel.h>` for the types. [`Library::build`] reads the names from the
//! objects, links the objects into the library so that every language can call them, and writes the
//! Rust file that `kernpack::library!()` includes: the module `kernels` with one item per kernel.
//! CUDA kernels are `extern "C" __global__` functions. The library contains their images as
//! imported modules, and `kernels::edges.launch(grid, block, (&out, &input, n))` launches one. A
//! crate with CUDA kernels needs kernpack's feature `cuda`.
//!
//! In `kernels::typed` each kernel with known argument types is a function:
//! `kernels::typed::edges((grid, block), &out, &input, n)`. Names and types are read from CUDA C++
//! and OpenCL C. Those of other kernels are declared, in a line
//! `kernpack: blur(src: Tensor[float32], ..)` of the comment before them, or by
//! [`Library::signature`]. The comment is the function's documentation, in every language.
//!
//! # Rebuilds
//!
//! The build script runs again when an input, an included header, a compiler or a relevant variable
//! changes, also when a compiler appears that was missing or that takes precedence; otherwise cargo
//! runs nothing. When it runs, it compiles only what changed: results are cached in `OUT_DIR` (at
//! most 256 MiB) by the content of the source and of all headers that it reads, the options, the
//! compiler (its path and version), the target and the variables that the compiler reads. A source
//! whose text contains `.incbin`, `#embed`, `__DATE__` or `__TIME__` is compiled each time, since
//! no list of headers shows these inputs. A new header that takes precedence in an `include` folder
//! takes effect when the script runs for another reason; one in the system's own folders does not.
//!
//! Compilers run in parallel, as many at a time as cargo allows: each further compiler takes a
//! token of cargo's jobserver. `cargo build -vv` shows a line when a kernel has been compiled, with
//! the time that it took. A kernel that takes more than five seconds is named while it is compiled.
//! Plain `cargo build` shows no output of a build script while it runs; `KERNPACK_PROGRESS` does.
//!
//! # Outputs
//!
//! `OUT_DIR/kernpack/outputs.json` lists the outputs, as does `cargo kernpack outputs`: objects,
//! PTX, fat binaries, the packed modules, and the generated Rust, which is formatted.
//! `compile_commands.json` next to it is for clangd; see [`Library::compile_commands`].
//!
//! # Variables
//!
//! | Variable | Meaning |
//! |---|---|
//! | `KERNPACK_CUDA` | whether CUDA is needed: `auto`, `require` or `off`; see [`Library::cuda`] |
//! | `KERNPACK_OPENCL` | whether OpenCL C is compiled while building (feature `opencl`): `auto`, `require` or `off`; see [`Library::opencl`] |
//! | `KERNPACK_OPENCL_LIBRARY`, `KERNPACK_OPENCL_DEVICES` | the OpenCL library and the devices for that, as the runtime reads them |
//! | `KERNPACK_COMPILE_COMMANDS` | a file (absolute) that the commands of all packages are put into; see [`Library::compile_commands`] |
//! | `KERNPACK_PROGRESS` | a file (absolute), such as `/dev/tty`, that gets lines about the build as they come |
//! | `CUDA_HOME`, `CUDA_PATH` | folders of CUDA toolkits |
//! | `NVCC`, `NVCC_CCBIN`, `NVCC_PREPEND_FLAGS`, `NVCC_APPEND_FLAGS` | nvcc, and what it reads by itself |
//! | `CC`, `CFLAGS`, `CXX`, `CXXFLAGS`, `AR` and their relatives | as the `cc` crate reads them |
//! | `CXXSTDLIB` | the C++ runtime library to link; empty for none |

mod c;
mod cache;
mod cargo;
mod cuda;
mod describe;
mod error;
mod exported_abi;
mod generate;
mod library;
#[cfg(feature = "llvm")]
mod llvm;
#[cfg(feature = "graph")]
mod models;
mod multiversion;
mod opencl;
mod outputs;
mod pack;
mod session;
#[cfg(feature = "compiler")]
mod te_kernels;
mod tool;

/// The items for writing tensor expressions: `use kernpack_build::te::*;`.
#[cfg(feature = "compiler")]
pub mod te {
    pub use kernpack_compiler::ir::{
        BF16, BOOLEAN, DataType, Expr, F16, F32, F64, I8, I16, I32, I64, IterVar, Tensor, U8, U16, U32, U64, Var,
    };
    pub use kernpack_compiler::schedule::Schedule;
    pub use kernpack_compiler::te::*;
    pub use kernpack_compiler::{CompileError, Kernel, TargetDescription};
}

pub use cuda::options::{CudaCompiler, CudaOptions};
pub use error::{Error, Result};
pub use exported_abi::export_abi;
pub use library::Library;
#[cfg(feature = "modules")]
pub use llvm::module::{llvm_module, llvm_module_for, llvm_module_with};
#[cfg(feature = "llvm")]
pub use llvm::packer::LlvmPacker;
#[cfg(feature = "graph")]
pub use models::{DimExtents, Model, Threads};
pub use pack::module::Module;
pub use pack::object_packer::ObjectPacker;

/// The compiler behind [`Library::te`].
#[cfg(feature = "compiler")]
pub use kernpack_compiler as compiler;

/// The graphs behind [`Library::model`], for writing custom operators.
#[cfg(feature = "graph")]
pub use kernpack_graph as graph;

/// The LLVM bindings that [`Library::llvm`] passes to its closure.
#[cfg(feature = "llvm")]
pub use inkwell;
