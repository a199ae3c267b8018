//! CUDA kernels of a device image as packed functions.

use super::device_image::DeviceFunction;
use crate::function::Function;
use crate::value::Bytes;
use crate::{Error, Result};

/// The packed function that launches `kernel`.
pub(super) fn kernel(_payload: &Bytes, kernel: &DeviceFunction<'_>) -> Result<Function> {
    let name = kernel.name.to_owned();
    Ok(Function::from_packed(move |_args| {
        Err(Error::runtime_error(format!("cuda kernel '{name}' can not be launched: no CUDA driver")))
    }))
}
