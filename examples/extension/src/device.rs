//! A device type of its own: `ext_dev`, number 12 in DLPack, which is free for whoever brings a device.
//!
//! Apache TVM asks the global function `device_api.ext_dev` for the device. Today it is made of the CPU's, as in TVM's
//! example; a device of a library's own, with its memory, copies and streams, waits for the runtime's device interface.

use kernpack::abi::device_type;
use kernpack::{Any, Device, Function, Result, Tensor, TensorView, bail, packed_func};

use crate::memory;

/// The one device of this type.
pub const EXT_DEV: Device = Device::new(device_type::EXT_DEV, 0);

/// The device API of `ext_dev`, as Apache TVM's runtime looks it up: a pointer to a C++ object.
///
/// It is the CPU's, so it needs TVM's runtime in the process.
#[packed_func(name = "device_api.ext_dev")]
pub fn device_api() -> Result<Any> {
    match Function::get_global("device_api.cpu")? {
        Some(cpu) => cpu.call(()),
        None => bail!(
            RuntimeError,
            "the device API of ext_dev is made of the CPU's, and nobody has registered device_api.cpu; import tvm first"
        ),
    }
}

/// A copy of a float32 tensor on another device: `cpu` or `ext_dev`.
#[packed_func]
pub fn to_device(tensor: Tensor, device: Device) -> Result<Tensor> {
    let elements = match tensor.device() {
        EXT_DEV => memory::elements(&tensor)?,
        _ => tensor.view::<f32>()?.to_vec(),
    };
    match device {
        EXT_DEV => memory::tensor(&elements, tensor.shape()),
        Device::CPU => Tensor::from_vec(elements, tensor.shape()),
        _ => bail!(ValueError, "expected cpu:0 or ext_dev:0, got {device}"),
    }
}

/// A new tensor on `ext_dev` whose elements are one more than those of `x`, which is float32 and contiguous on `ext_dev`.
#[packed_func]
pub fn ext_dev_add_one(x: Tensor) -> Result<Tensor> {
    let elements: Vec<f32> = memory::elements(&x)?.into_iter().map(|element| element + 1.0).collect();
    memory::tensor(&elements, x.shape())
}

/// The sum of a tensor's elements. A function for the CPU, as most are: it does not take tensors of other devices.
#[packed_func]
pub fn total(x: TensorView<f32>) -> f64 {
    x.iter().map(f64::from).sum()
}
