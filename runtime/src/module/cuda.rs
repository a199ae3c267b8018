//! CUDA kernels of a device image. The driver is loaded at the first launch; the image is loaded once on each device that it runs on.

mod driver;
mod launch;

use std::sync::Arc;

use super::image_module::image_module;
use super::{KindInfo, Module};
use crate::Result;
use crate::function::Function;
use crate::value::Bytes;

#[linkme::distributed_slice(crate::registration::KERNPACK_KINDS_V1)]
static CUDA: KindInfo = KindInfo {
    kind: "cuda",
    loader: || {
        Function::from_fn(|payload: Bytes| -> Result<Module> {
            image_module("cuda", payload, |image| Ok(Arc::new(launch::CudaCode::new(image))))
        })
    },
};
