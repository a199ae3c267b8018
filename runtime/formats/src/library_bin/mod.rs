//! Reader and writer of `__tvm_ffi__library_bin`: the import tree that is stored in a shared
//! library.
//!
//! ```text
//! u64 number of bytes that follow
//! u64 n + 1, then n + 1 row pointers (u64) into the import list
//! u64 m, then m module indices (u64): the imports of module i are those from row pointer i to row pointer i + 1
//! n times: kind (u64 length, bytes), and payload (u64 length, bytes) unless the kind is "_lib"
//! ```
//!
//! Integers are little endian and unaligned. Module 0 is the root; `_lib` represents the shared
//! library itself and occurs at most once. A module only imports modules after itself, so the tree
//! does not have cycles.
//!
//! ```
//! use kernpack_formats::library_bin::{LibraryBin, LibraryBinWriter};
//!
//! let mut writer = LibraryBinWriter::new();
//! let library = writer.add_library()?;
//! let image = writer.add_module("cuda", b"payload")?;
//! writer.import(library, image)?;
//! let blob = writer.to_vec();
//!
//! let tree = LibraryBin::parse(&blob)?;
//! assert_eq!(tree.imports(0).collect::<Vec<_>>(), [1]);
//! assert_eq!(tree.modules()[1].kind(), "cuda");
//! assert_eq!(tree.modules()[1].payload(), Some(&b"payload"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(hidden)]
pub mod order;
mod reader;
mod writer;

pub use reader::{Entry, LibraryBin};
pub use writer::{LibraryBinWriter, WriteError};

/// The kind of the entry that represents the shared library itself.
pub const LIBRARY_KIND: &str = "_lib";

/// Name of the symbol that holds the blob.
pub const LIBRARY_BIN_SYMBOL: &str = "__tvm_ffi__library_bin";

/// Name of the symbol that holds the blob of a Kernpack library on systems where
/// [`LIBRARY_BIN_SYMBOL`] is a function of the runtime; see [`has_resolver`].
#[doc(hidden)]
pub const SHOWN_LIBRARY_BIN_SYMBOL: &str = "__kernpack_library_bin_v1";

/// The same blob, for the artifact's own code: a symbol that is not visible to other artifacts. If
/// several crates have a blob, the first one's is linked.
#[doc(hidden)]
pub const FIRST_LIBRARY_BIN_SYMBOL: &str = "__kernpack_first_library_bin";

/// Returns whether [`LIBRARY_BIN_SYMBOL`] is an indirect function (ELF) in libraries for the given
/// system: the dynamic linker calls it to resolve the symbol.
///
/// This way a library that cannot be used exposes a tree that fails to load. The runtime makes the
/// same decision with `cfg`.
#[doc(hidden)]
pub fn has_resolver(arch: &str, os: &str, env: &str) -> bool {
    os == "linux" && env == "gnu" && matches!(arch, "x86_64" | "aarch64")
}

const FORMAT: &str = "library_bin";

#[cfg(test)]
mod tests;
