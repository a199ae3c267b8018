//! The schedule primitives.

mod annotate;
mod attach;
mod handle;
mod loops;
mod memory;

pub(crate) use handle::{Context, at_place};
pub use handle::{StageHandle, StageKey};
pub(crate) use memory::check_scope;
