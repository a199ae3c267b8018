//! The primitives: what a schedule can be told.

mod annotate;
mod attach;
mod handle;
mod loops;
mod memory;

pub use handle::{StageHandle, StageKey};
