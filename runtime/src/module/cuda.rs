//! CUDA kernels of a device image as packed functions.
//!
//! A call passes the kernel's own arguments (tensors on a CUDA device for pointers, numbers for scalars), then one number for
//! each launch parameter in the order of the image's table. The driver is loaded at the first launch; the image is loaded
//! once on each device that it runs on; the launch goes to the stream that the environment names for the device.

mod driver;
mod launch;

use std::sync::Arc;

pub(super) use launch::{CudaImage, kernel};

/// The state that all kernels of an image share.
pub(super) fn image(payload: &crate::value::Bytes) -> Arc<CudaImage> {
    Arc::new(CudaImage::new(payload.clone()))
}
