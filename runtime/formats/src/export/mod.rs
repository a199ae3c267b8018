//! Conversion of blobs to code: packers and object file formats.

mod error;
mod object_format;
mod packer;
#[doc(hidden)]
pub mod shell;

pub use error::{ExportError, Result};
pub use object_format::{BLOB_ALIGNMENT, LARGE_BLOB, ObjectFormat, Section, Target};
pub use packer::{AssemblyPacker, Blob, CPacker, Packer};
#[doc(hidden)]
pub use packer::{ByItsSize, write_file};
