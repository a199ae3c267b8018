//! The kinds of modules that this crate knows, and what restores them from the bytes in a library's import tree.
//!
//! Our loader uses it where no global function
//! `ffi.Module.load_from_bytes.<kind>` is registered; we do not register these functions globally, because Apache TVM's runtime
//! ends the process when it finds one of its own names taken. A library that carries images of a kind does register it, for
//! providers that are not ours ([`CarriedKind`]), unless the process has one.

pub(in crate::module) mod c_source;
pub(in crate::module) mod image_module;
mod listed_functions;
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
    /// Makes the function that turns the bytes into a module.
    pub(in crate::module) loader: fn() -> Function,
}

/// The kinds that this crate knows, file by file.
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

/// A kind of module of which this artifact carries one in its import tree.
pub struct CarriedKind {
    /// Name of the kind.
    pub kind: &'static str,
    /// Registers what loads such modules, so that only an artifact that carries some has that.
    pub register: fn(&'static Self) -> Result<()>,
    /// Returns the import tree of the crate in this artifact.
    pub library_bin: fn() -> *const u8,
    /// The tree that loaders find in this artifact: that of its own crate, or of the first one below it that has one.
    pub shown: fn() -> *const u8,
}

pub use kernpack_formats::OWN_KIND_PREFIX;

/// The loader of a kind that this crate knows.
#[inline]
pub(in crate::module) fn own_loader(kind: &str) -> Option<Function> {
    let find = |kind: &str| own_kinds().find(|info| info.kind == kind);
    let info = find(kind).or_else(|| kind.strip_prefix(OWN_KIND_PREFIX).and_then(find))?;
    Some((info.loader)())
}

/// Registers the loader of a kind of which this artifact carries modules; a kind that has one in this process keeps it. Kinds that
/// are not ours have loaders of their own.
///
/// # Errors
/// Returns the provider's error.
#[inline]
pub fn register_carried(kind: &str) -> Result<()> {
    if own_loader(kind).is_some() { enable(kind) } else { Ok(()) }
}

/// Lets this process restore modules of a kind, a program that loads them: registers `ffi.Module.load_from_bytes.<kind>`, unless it has
/// such a function already.
///
/// [`Module::load`](crate::Module::load) in a process without libtvm_ffi needs no call of this, and neither does a library that
/// carries modules of the kind. It is for providers that load, through libtvm_ffi, what others have exported.
///
/// # Errors
/// ValueError when this crate does not know the kind, or was built without the feature that it needs; what the provider reports.
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
