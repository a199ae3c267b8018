//! Modules: loaded units of functions with an import tree.
//!
//! A library is a module of kind `library`; the device images in it are separate modules (kind
//! `cuda`, ...) that it imports. `__tvm_ffi__library_bin` contains the tree; [`library_bin`] reads
//! and writes it.
//!
//! ```no_run
//! use kernpack::Module;
//! let library = Module::load("libimagekit.so")?;
//! let three: i64 = library.function("add")?.call_as((1, 2))?;
//! # Ok::<(), kernpack::Error>(())
//! ```
//!
//! # Kernels
//!
//! A module of device code (kinds `cuda` and `opencl`, with the Cargo features of the same names)
//! has one packed function for each kernel of its [image](device_image). Any language calls it with
//! the kernel's own arguments, then one extent for each launch parameter of the image's function
//! table (usually `blockIdx.x`, `.y`, `.z`, `threadIdx.x`, `.y`, `.z`), then the number of bytes of
//! dynamic shared memory, if the kernel uses any. Rust launches kernels with a grid and a block:
//! those of its own build script are statics in the generated module `kernels`, and those of
//! another library, in any language, come from [`Module::kernel`].
//!
//! ```no_run
//! # fn tensors() -> (kernpack::Tensor, kernpack::Tensor) { unimplemented!() }
//! use kernpack::Module;
//! use kernpack::module::LaunchConfig;
//!
//! let (output, input) = tensors();
//! let scale = Module::load("libimagekit.so")?.kernel("scale")?;
//! scale.launch(4, 256, (&output, &input, 2.0, 1000))?;
//! let config = LaunchConfig { dynamic_shared_memory: 4096, ..LaunchConfig::new((2, 2), (16, 16)) };
//! scale.launch_with(&config, (&output, &input, 2.0, 1000))?;
//! # Ok::<(), kernpack::Error>(())
//! ```
//!
//! Kernel arguments are checked against the table before launch. Errors name the kernel, the
//! argument and the expected value:
//!
//! - A pointer accepts a contiguous tensor on a device of the kernel's kind (CUDA kernels also
//!   accept managed and pinned CPU memory), None for NULL, or a plain `void*`. The table does not
//!   contain the element type of a buffer: the caller is responsible for it, as well as for plain
//!   pointers.
//! - A number accepts a value that fits into its type. Integers have 8 to 64 bits; floats have 64,
//!   32, 16 (including bfloat16) or 8 bits, and the value is rounded to the float type; a finite
//!   number beyond the type's range is an error.
//! - All tensors must be on one device, and the kernel runs there. Without a tensor it runs on the
//!   thread's current device of its kind: the first one, unless [`set_current_device`] was called.
//!   The launch is enqueued in the environment's current stream of that device, and no thread waits
//!   for it.
//! - Extents are at least 1; there is no empty launch. A tensor may be empty; its kernel gets an
//!   address that may be NULL.
//!
//! After the first launch of a kernel on a device, a launch does not take a lock or allocate here
//! (up to 24 arguments, on devices 0 to 15).
//!
//! Images of kinds `hip`, `rocm`, `vulkan`, `metal` and `webgpu` are stored, listed, saved and
//! restored byte for byte; calling one of their kernels is an error that says what would run it.
//! [`Module::from_image`] creates a module from an image that the program has built.

#[doc(hidden)]
pub mod cpp;
#[cfg(feature = "cuda")]
mod cuda;
pub mod device_image;
mod elf;
pub mod export;
mod files;
mod function_cache;
mod handle;
mod implementation;
mod import_order;
mod imports;
mod kinds;
pub(crate) mod launch;
pub mod library_bin;
mod load;
mod object;
#[cfg(feature = "opencl")]
pub mod opencl;
#[doc(hidden)]
pub mod operations;
mod serialize;
#[cfg(test)]
mod test_host;

pub use export::{AssemblyPacker, CPacker, ExportOptions, Packer};
#[doc(hidden)]
pub use function_cache::tree_changed as imports_replaced;
pub use handle::Module;
pub use implementation::{ModuleImpl, ModuleProperties};
pub use kinds::c_source::CSource;
#[doc(hidden)]
pub use kinds::llvm_code::{LlvmCode, LlvmModule};
#[cfg(feature = "zstd")]
pub use kinds::zstd;
#[doc(hidden)]
pub use kinds::{CarriedKind, register_carried};
pub use kinds::{OWN_KIND_PREFIX, enable};
pub use launch::{Extents, KernelLauncher, LaunchConfig, set_current_device};
#[doc(hidden)]
pub use load::code::{code_symbols, connect_code, function_of_code};
pub(crate) use load::context::lookup_in_imports;
#[doc(hidden)]
pub use load::context::offer_context_symbols;
#[doc(hidden)]
pub use load::linked::note_carried;
#[doc(hidden)]
pub use load::loader::{has_loaders, load_from_file, load_shared_library, note_own_loaders};
#[cfg(feature = "builtins")]
#[doc(hidden)]
pub use load::system_library::system_library;
