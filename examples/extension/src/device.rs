//! A new device type: `ext_dev`, number 12 in DLPack, which is free for devices of libraries.
//!
//! `memory.rs` implements the device (`DeviceApi`) and registers it: from then on every library in
//! the process can create, copy and view tensors on it. Apache TVM calls the global function
//! `device_api.ext_dev` for the device instead; as in TVM's example, that returns the CPU's.

use kernpack::device::device_type;
use kernpack::{Any, DataType, Device, Function, Result, Tensor, TensorView, bail, ensure, packed_func};

use crate::memory;

/// The one device of this type.
pub const EXT_DEV: Device = Device::new(device_type::EXT_DEV, 0);

/// Returns the device API of `ext_dev`, as Apache TVM's runtime looks it up: a pointer to a C++
/// object.
///
/// It is the CPU's, so it needs TVM's runtime in the process.
#[packed_func(name = "device_api.ext_dev")]
pub fn device_api() -> Result<Any> {
    match Function::find_global("device_api.cpu")? {
        Some(cpu) => cpu.call(()),
        None => bail!(
            RuntimeError,
            "the device API of ext_dev is made of the CPU's, and device_api.cpu is not registered; import tvm first"
        ),
    }
}

/// Copies a tensor to another device.
#[packed_func]
pub fn to_device(tensor: Tensor, device: Device) -> Result<Tensor> {
    tensor.to(device)
}

/// Returns the rows `start..end` of a tensor on any device: the same memory, not a copy.
#[packed_func]
pub fn rows(tensor: Tensor, start: i64, end: i64) -> Result<Tensor> {
    tensor.slice(start..end)
}

/// The bytes of `ext_dev` that are allocated now, by all libraries.
#[packed_func]
pub fn ext_dev_in_use() -> i64 {
    memory::in_use()
}

/// Returns a new tensor on `ext_dev` with the elements of `x` plus one. `x` is float32 and
/// contiguous on `ext_dev`.
#[packed_func]
pub fn ext_dev_add_one(x: Tensor) -> Result<Tensor> {
    let (device, dtype) = (x.device(), x.dtype());
    ensure!(
        device == EXT_DEV,
        ValueError,
        "expected a tensor on ext_dev, got one on {device}; copy it there with extension.to_device"
    );
    ensure!(dtype == DataType::FLOAT32, TypeError, "expected float32, got {dtype}");
    ensure!(x.is_contiguous(), ValueError, "expected a contiguous tensor");
    let result = Tensor::empty(DataType::FLOAT32, x.shape(), EXT_DEV)?;
    let [source, target] = [&x, &result].map(|tensor| {
        let tensor = tensor.dl_tensor();
        tensor.data.wrapping_byte_add(tensor.byte_offset as usize).cast::<f32>()
    });
    for index in 0..x.len() {
        // SAFETY: both have as many elements, one after the other; this is the device's own code,
        // which may access its memory. The result is new, and no other code has it.
        unsafe { target.add(index).write_unaligned(source.add(index).read_unaligned() + 1.0) };
    }
    Ok(result)
}

/// Returns the sum of a tensor's elements. Like most functions it is for the CPU, and rejects
/// tensors of other devices.
#[packed_func]
pub fn total(x: TensorView<f32>) -> f64 {
    x.iter().map(f64::from).sum()
}
