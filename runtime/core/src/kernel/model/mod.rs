//! Models that a build script compiled into this library: for generated code.

mod cancel;
mod memory;
mod source;
mod weights;

pub use cancel::{CANCEL_BYTES, CANCEL_MARK, Canceller};
pub use source::WeightsSource;
pub use weights::{ModelWeights, WeightsSlot};
