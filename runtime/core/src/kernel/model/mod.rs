//! Models that a build script compiled into this library: for generated code.
//!
//! The functions are inline: a library that does not call them does not have their unwind tables.

mod cache;
mod cancel;
mod memory;
mod source;
mod weights;

pub use cache::Cache;
pub use cancel::{CANCEL_BYTES, CANCEL_MARK, Canceller};
pub use source::WeightsSource;
pub use weights::{ModelWeights, WeightsSlot};
