//! The `ffi.*` global functions that the embedded implementation offers, so that hosts in any language find them under the
//! stock names.

mod builtin;
mod functions;
mod modules;

use crate::Result;

/// Registers all of them; done once, when this artifact serves itself.
pub(crate) fn register() -> Result<()> {
    functions::BUILTINS.iter().chain(&modules::BUILTINS).try_for_each(builtin::Builtin::register)
}
