//! Libraries as modules: shared libraries and symbols that a program registers for itself, their
//! contexts, and the order in which a tree is connected.

pub(in crate::module) mod code;
pub(in crate::module) mod context;
mod context_modules;
mod library;
pub(in crate::module) mod linked;
pub(in crate::module) mod loader;
mod open;
mod shared_library;
mod symbols;
#[cfg(feature = "builtins")]
pub(in crate::module) mod system_library;
