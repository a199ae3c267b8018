//! Models that a build script compiled into this library: for generated code.

mod memory;
mod source;
mod weights;

pub use source::WeightsSource;
pub use weights::{ModelWeights, WeightsSlot};
