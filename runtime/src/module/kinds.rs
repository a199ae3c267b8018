//! The kinds of modules that this crate knows, and what restores them from the bytes in a library's import tree.
//!
//! A kind's file adds a [`KindInfo`] to a distributed slice. Our loader uses it where no global function
//! `ffi.Module.load_from_bytes.<kind>` is registered; we do not register these functions for everyone, because Apache TVM's runtime
//! ends the process when it finds one of its own names taken. A library that carries images of a kind does register it, for
//! hosts that are not ours ([`CarriedKind`]), unless the process has one.

use crate::Result;
use crate::function::{Function, did_you_mean};
use crate::registration::{KERNPACK_CARRIED_V1, KERNPACK_KINDS_V1};

/// A kind of module that can be restored from bytes.
pub struct KindInfo {
    /// Name of the kind.
    pub kind: &'static str,
    /// Makes the function that turns the bytes into a module.
    pub loader: fn() -> Function,
}

/// A kind of module of which this artifact carries one in its import tree.
pub struct CarriedKind {
    /// Name of the kind.
    pub kind: &'static str,
}

pub use kernpack_formats::OWN_KIND_PREFIX;

/// The loader of a kind that this crate knows.
pub(super) fn own_loader(kind: &str) -> Option<Function> {
    let find = |kind: &str| KERNPACK_KINDS_V1.iter().find(|info| info.kind == kind);
    let info = find(kind).or_else(|| kind.strip_prefix(OWN_KIND_PREFIX).and_then(find))?;
    Some((info.loader)())
}

/// Registers the loaders of what this artifact carries; a kind that has one in this process keeps it. Kinds that are not ours have
/// loaders of their own.
pub(crate) fn register_carried() -> Result<()> {
    let carried = KERNPACK_CARRIED_V1.iter().map(|carried| carried.kind);
    carried.filter(|kind| own_loader(kind).is_some()).try_for_each(enable)
}

/// Lets this process restore modules of a kind, whoever loads them: registers `ffi.Module.load_from_bytes.<kind>`, unless it has
/// such a function already.
///
/// [`Module::load`](crate::Module::load) in a process without libtvm_ffi needs no call of this, and neither does a library that
/// carries modules of the kind. It is for hosts that load, through libtvm_ffi, what others have exported.
///
/// # Errors
/// ValueError when this crate does not know the kind, or was built without the feature that it needs; what the host reports.
pub fn enable(kind: &str) -> Result<()> {
    let name = format!("ffi.Module.load_from_bytes.{kind}");
    if Function::get_global(&name)?.is_some() {
        return Ok(());
    }
    let Some(loader) = own_loader(kind) else {
        let hint = did_you_mean(kind, &mut KERNPACK_KINDS_V1.iter().map(|info| info.kind));
        return Err(crate::error!(ValueError, "kernpack has no loader of modules of kind '{kind}'{hint}"));
    };
    Function::register_global(&name, &loader)
}
