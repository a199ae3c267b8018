//! Modules of kind `cuda` (Cargo feature `cuda`): images with code for NVIDIA GPUs.
//!
//! The formats are those of Apache TVM: `fatbin`, `cubin` and `ptx`, which the driver loads, and
//! `cuda`, source code that NVRTC compiles for a device when it is first needed there. An image is
//! loaded once per device, at the first launch there.

mod code;
mod image;
mod kernel;
mod nvrtc;

use std::sync::Arc;

use self::code::CudaCode;
use super::Module;
use super::kinds::KindInfo;
use super::kinds::image_module::image_module;
use crate::Result;
use crate::function::Function;
use crate::value::Bytes;

/// The kind and the loader of its modules.
pub(super) const KIND_INFO: KindInfo = KindInfo { kind: "cuda", loader: || Function::from_fn(load) };

#[inline]
fn load(payload: Bytes) -> Result<Module> {
    image_module("cuda", payload, |image| Ok(Arc::new(CudaCode::new(image)?)))
}
