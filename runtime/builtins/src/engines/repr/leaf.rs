//! The repr of devices, tensors and markers.

use super::number::push_int;
use crate::Result;
use crate::abi::{DLDevice, DLTensor, TVMFFIObject, device_type};
use crate::embedded::dtype;
use crate::functions::values;
use crate::value::Any;

/// The text of a marker; `None` for any other object.
#[inline]
pub(super) fn name_of_marker(object: *mut TVMFFIObject) -> Option<&'static [u8]> {
    let is = |marker: Any| marker.as_view().object() == Some(object);
    if is(values::missing()) {
        return Some(b"<MISSING>");
    }
    is(values::keyword_arguments()).then_some(b"<KWARGS>")
}

/// Appends dimensions, such as `2, 3`.
#[inline]
pub(super) fn push_dimensions(out: &mut Vec<u8>, dimensions: &[i64]) {
    for (at, dimension) in dimensions.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        push_int(out, *dimension);
    }
}

/// Appends a tensor's description, such as `float32[2, 3]@cpu:0`.
///
/// # Safety
/// The tensor's shape has `ndim` elements.
#[inline]
pub(super) unsafe fn push_tensor(out: &mut Vec<u8>, tensor: &DLTensor) -> Result<()> {
    out.extend_from_slice(dtype::format(tensor.dtype)?.as_bytes());
    out.push(b'[');
    if tensor.ndim > 0 && !tensor.shape.is_null() {
        // SAFETY: promised by the caller.
        push_dimensions(out, unsafe { core::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) });
    }
    out.extend_from_slice(b"]@");
    push_device(out, tensor.device);
    Ok(())
}

/// Appends a device, such as `cuda:1`.
#[inline]
pub(super) fn push_device(out: &mut Vec<u8>, device: DLDevice) {
    let name: &[u8] = match device.device_type {
        device_type::CPU => b"cpu",
        device_type::CUDA => b"cuda",
        device_type::CUDA_HOST => b"cuda_host",
        device_type::OPENCL => b"opencl",
        device_type::VULKAN => b"vulkan",
        device_type::METAL => b"metal",
        device_type::VPI => b"vpi",
        device_type::ROCM => b"rocm",
        device_type::ROCM_HOST => b"rocm_host",
        device_type::EXT_DEV => b"ext_dev",
        device_type::CUDA_MANAGED => b"cuda_managed",
        device_type::ONE_API => b"oneapi",
        device_type::WEBGPU => b"webgpu",
        device_type::HEXAGON => b"hexagon",
        device_type::MAIA => b"maia",
        device_type::TRN => b"trn",
        _ => b"unknown",
    };
    out.extend_from_slice(name);
    out.push(b':');
    push_int(out, device.device_id.into());
}
