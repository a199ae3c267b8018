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
mod c_source;
mod cpp_call;
mod cpp_exception;
mod cuda;
pub mod device_image;
mod elf;
pub mod export;
mod function_cache;
mod handle;
mod image_module;
mod implementation;
mod kept;
mod kept_images;
mod kinds;
mod launch;
mod library;
pub mod library_bin;
mod loader;
mod provider;
mod serialize;
#[cfg(feature = "opencl")]
pub mod opencl;
pub(crate) mod raw;
mod shared_library;
mod static_library;
mod stream;
mod symbols;
#[cfg(feature = "builtins")]
mod system_library;
#[cfg(feature = "zstd")]
pub mod zstd;

pub(crate) use context::{lookup_in_imports, register_context_symbols};
pub(crate) use function_cache::tree_changed as imports_replaced;
pub use c_source::CSource;
pub use export::{AssemblyPacker, CPacker, ExportOptions, Packer};
pub use handle::Module;
pub use implementation::{ModuleImpl, ModuleProperties};
pub use kinds::enable;
pub(crate) use kinds::register_carried;
#[doc(hidden)]
pub use kinds::{CarriedKind, KindInfo};
pub use launch::{Extents, LaunchConfig, set_current_device};
pub(crate) use loader::{load_from_file, load_shared_library};
pub(crate) use serialize::import_order;
#[cfg(feature = "builtins")]
pub(crate) use system_library::system_library;
