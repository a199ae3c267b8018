//! Classifies photographs with ResNet-18, compiled into this library with its weights.
//!
//! | function | |
//! |---|---|
//! | [`classify_path`], [`classify_bytes`] | the most likely classes of a photograph, a JPEG or PNG file |
//! | [`prepare`] | the input of the network for it: 3 x 224 x 224 numbers |
//! | `resnet18` | the network alone: such numbers in, 1000 scores out |

kernpack::library!();

pub mod classify;
mod crop;
mod network;
pub mod photo;

pub use classify::{Prediction, classify_bytes, classify_path, prepare};
