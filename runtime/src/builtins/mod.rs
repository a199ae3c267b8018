//! The `ffi.*` global functions that the embedded implementation offers, so that hosts in any language find them under the
//! stock names.

mod functions;
mod modules;

use crate::Result;
use crate::function::{Function, TypedClosure};

/// Registers all of them; done once, when this artifact serves itself.
pub(crate) fn register() -> Result<()> {
    functions::register()?;
    modules::register()
}

fn global<P>(name: &str, closure: impl TypedClosure<P>) -> Result<()> {
    Function::register_global(name, &Function::from_fn(closure))
}
