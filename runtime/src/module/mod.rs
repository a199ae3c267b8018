//! Modules: loaded units of functions with an import tree.
//!
//! A library is one module of kind `library`; device images that it carries are modules of their own (kind `cuda`, ...)
//! that it imports. `__tvm_ffi__library_bin` holds the tree; [`library_bin`] reads and writes it.
//!
//! ```no_run
//! use kernpack::Module;
//! let library = Module::load("libimagekit.so")?;
//! let three: i64 = library.function("add")?.call_as((1, 2))?;
//! # Ok::<(), kernpack::Error>(())
//! ```

pub(crate) mod backend;
mod context;
mod cpp_exception;
mod cuda;
pub mod device_image;
mod device_module;
mod elf;
mod handle;
mod image_loader;
mod implementation;
mod kept;
mod library;
pub mod library_bin;
mod loader;
pub(crate) mod raw;
mod shared_library;
mod stream;
mod symbols;
#[cfg(feature = "builtins")]
mod system_library;

pub(crate) use context::{lookup_in_imports, register_context_symbols};
pub use handle::Module;
pub use image_loader::enable_cuda;
pub(crate) use image_loader::register_loaders;
#[doc(hidden)]
pub use image_loader::{LoaderInfo, cuda_loader};
pub(crate) use loader::{load_from_file, load_shared_library};
#[cfg(feature = "builtins")]
pub(crate) use system_library::system_library;
