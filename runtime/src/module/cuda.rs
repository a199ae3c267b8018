//! Modules of the kind `cuda`: images with code for NVIDIA GPUs.
//!
//! The formats are those of Apache TVM: `fatbin`, `cubin` and `ptx`, which the driver loads, and `cuda`, source that NVRTC compiles for
//! the device when it is first needed there. An image is loaded once on each device that it runs on, at the first launch there.

#[cfg(feature = "cuda")]
mod code;
#[cfg(feature = "cuda")]
mod image;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
mod nvrtc;

use super::{KindInfo, Module};
use crate::Result;
use crate::function::Function;
use crate::value::Bytes;

#[linkme::distributed_slice(crate::registration::KERNPACK_KINDS_V1)]
static CUDA: KindInfo = KindInfo { kind: "cuda", loader: || Function::from_fn(load) };

#[cfg(feature = "cuda")]
fn load(payload: Bytes) -> Result<Module> {
    super::image_module::image_module("cuda", payload, |image| Ok(std::sync::Arc::new(code::CudaCode::new(image)?)))
}

#[cfg(not(feature = "cuda"))]
fn load(payload: Bytes) -> Result<Module> {
    let why = "kernpack was built without its feature `cuda`; build the library, or the program that loads it, with it";
    super::image_module::kept_image_module("cuda", payload, why)
}
