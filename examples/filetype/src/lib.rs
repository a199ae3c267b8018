//! Identifies the kind of a file with Google's Magika 1.0.3, a neural network for 214 kinds of
//! files that is compiled into this library with its weights.
//!
//! | function | |
//! |---|---|
//! | [`identify_path`] | the kind of a file; at most 8 KiB of it are read |
//! | [`identify_bytes`] | the kind of bytes in memory |
//! | `magika` | the network alone: 2048 tokens in, 214 scores out |

kernpack::library!();

mod classifier;
pub mod features;
pub mod identify;
pub mod kinds;

pub use identify::{Identification, identify_bytes, identify_path};
