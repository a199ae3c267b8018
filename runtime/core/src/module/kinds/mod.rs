//! The module kinds that this crate supports, and their loaders, which restore modules from the
//! bytes in a library's import tree.
//!
//! Our library loader uses them if no global function `ffi.Module.load_from_bytes.<kind>` is
//! registered. We do not register these functions globally, because Apache TVM's runtime ends the
//! process if one of its names is taken. A library that contains images of a kind does register the
//! loader, for providers of other projects ([`CarriedKind`]), unless the process has one.

pub(in crate::module) mod c_source;
pub(in crate::module) mod image_module;
mod listed_functions;
pub(in crate::module) mod llvm_code;
pub(in crate::module) mod missing_loader;
mod static_library;
#[cfg(any(not(feature = "cuda"), not(feature = "opencl"), feature = "embedded"))]
mod stored_images;
#[cfg(feature = "zstd")]
pub mod zstd;

use crate::Result;
use crate::function::{Function, did_you_mean};
#[cfg(feature = "cuda")]
use crate::module::cuda;
#[cfg(feature = "opencl")]
use crate::module::opencl;

/// A kind of module that can be restored from bytes.
pub(in crate::module) struct KindInfo {
    /// Name of the kind.
    pub(in crate::module) kind: &'static str,
    /// Creates the function that converts the bytes to a module.
    pub(in crate::module) loader: fn() -> Function,
}

/// The kinds that this crate supports, by file.
const OWN_KINDS: &[&[KindInfo]] = &[
    &[c_source::KIND_INFO, static_library::KIND_INFO],
    #[cfg(feature = "zstd")]
    &[zstd::KIND_INFO],
    #[cfg(feature = "cuda")]
    &[cuda::KIND_INFO],
    #[cfg(not(feature = "cuda"))]
    stored_images::CUDA,
    #[cfg(feature = "opencl")]
    &[opencl::KIND_INFO],
    #[cfg(not(feature = "opencl"))]
    stored_images::OPENCL,
    #[cfg(feature = "embedded")]
    stored_images::FOREIGN,
];

#[inline]
fn own_kinds() -> impl Iterator<Item = &'static KindInfo> {
    OWN_KINDS.iter().copied().flatten()
}

/// A module kind that occurs in this artifact's import tree.
pub struct CarriedKind {
    /// Name of the kind.
    pub kind: &'static str,
    /// Registers the loader of such modules. A field, so that only artifacts with such modules link
    /// that code.
    pub register: fn(&'static Self) -> Result<()>,
    /// Returns the import tree of the crate in this artifact.
    pub library_bin: fn() -> *const u8,
    /// Returns the tree that loaders find in this artifact: that of its own crate, or of the first
    /// crate below it that has one.
    pub shown: fn() -> *const u8,
}

pub use kernpack_formats::OWN_KIND_PREFIX;

/// Returns the loader of a kind that this crate supports.
#[inline]
pub(in crate::module) fn own_loader(kind: &str) -> Option<Function> {
    let find = |kind: &str| own_kinds().find(|info| info.kind == kind);
    let info = find(kind).or_else(|| kind.strip_prefix(OWN_KIND_PREFIX).and_then(find))?;
    Some((info.loader)())
}

/// Registers the loader of a kind that occurs in this artifact's import tree, unless the process
/// has one. Kinds of other projects have their own loaders.
///
/// # Errors
/// Returns the provider's error.
#[inline]
pub fn register_carried(kind: &str) -> Result<()> {
    if own_loader(kind).is_some() { enable(kind) } else { Ok(()) }
}

/// Lets this process restore modules of a kind, for a program that loads them: registers
/// `ffi.Module.load_from_bytes.<kind>`, unless the function exists.
///
/// [`Module::load`](crate::Module::load) does not need this call in a process without libtvm_ffi,
/// and neither does a library that contains modules of the kind. It is for libraries that others
/// have exported and that are loaded through libtvm_ffi.
///
/// # Errors
/// Returns a ValueError if this crate does not support the kind, or was built without the feature
/// that it needs, or the provider's error.
#[inline]
pub fn enable(kind: &str) -> Result<()> {
    let name = format!("ffi.Module.load_from_bytes.{kind}");
    if Function::find_global(&name)?.is_some() {
        return Ok(());
    }
    let Some(loader) = own_loader(kind) else {
        let hint = did_you_mean(kind, &mut own_kinds().map(|info| info.kind));
        return Err(crate::error!(ValueError, "kernpack has no loader of modules of kind '{kind}'{hint}"));
    };
    Function::register_global(&name, &loader)
}
