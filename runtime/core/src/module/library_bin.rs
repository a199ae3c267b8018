//! Reader and writer of `__tvm_ffi__library_bin`: the import tree that is stored in a shared
//! library.
//!
//! ```
//! use kernpack::module::library_bin::{LibraryBin, LibraryBinWriter};
//!
//! let mut writer = LibraryBinWriter::new();
//! let library = writer.add_library()?;
//! let image = writer.add_module("cuda", b"payload")?;
//! writer.import(library, image)?;
//! let blob = writer.to_vec();
//! assert_eq!(LibraryBin::parse(&blob)?.imports(0).collect::<Vec<_>>(), [1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(inline)]
pub use kernpack_formats::library_bin::*;
