//! Tensors in the memory of `ext_dev`.
//!
//! The device of this example computes on the CPU, so its memory is ordinary memory: what [`tensor`] allocates, and what Apache
//! TVM allocates for `ext_dev` through the device API that [`device_api`](crate::device::device_api) gives it. Still nothing
//! but this module reads it: views of tensors are for the memory of the CPU.

use core::ptr;

use kernpack::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor, device_type};
use kernpack::{DataType, Result, Tensor, ensure};

use crate::device::EXT_DEV;

/// As much as the kernels that Apache TVM compiles want aligned.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; 16]);

/// A DLPack tensor with what its pointers lead to.
struct Managed {
    tensor: DLManagedTensorVersioned,
    #[expect(dead_code, reason = "the tensor points into it: shape, then strides")]
    dimensions: Vec<i64>,
    #[expect(dead_code, reason = "the tensor points into it")]
    data: Vec<Line>,
}

/// A tensor with these elements, in row-major order, on `ext_dev`.
pub(crate) fn tensor(elements: &[f32], shape: &[i64]) -> Result<Tensor> {
    let len = shape.iter().try_fold(1_i64, |len, &dimension| len.checked_mul(dimension));
    ensure!(
        len == Some(elements.len() as i64) || elements.is_empty() && shape.contains(&0),
        ValueError,
        "{} elements do not fill a tensor of shape {shape:?}",
        elements.len()
    );
    let mut dimensions = shape.to_vec();
    dimensions.resize(2 * shape.len(), 1);
    for axis in (1..shape.len()).rev() {
        dimensions[shape.len() + axis - 1] = dimensions[shape.len() + axis].saturating_mul(shape[axis].max(1));
    }
    let mut data = vec![Line([0.0; 16]); elements.len().div_ceil(16)];
    for (line, elements) in data.iter_mut().zip(elements.chunks(16)) {
        line.0[..elements.len()].copy_from_slice(elements);
    }
    let sizes = dimensions.as_mut_ptr();
    let dl_tensor = DLTensor {
        data: data.as_mut_ptr().cast(),
        device: EXT_DEV.raw(),
        ndim: shape.len() as i32,
        dtype: DataType::FLOAT32.raw(),
        shape: sizes,
        strides: sizes.wrapping_add(shape.len()),
        byte_offset: 0,
    };
    let tensor = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 1 },
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    let managed = Box::into_raw(Box::new(Managed { tensor, dimensions, data }));
    // SAFETY: the box is ours and alive; the tensor's pointers lead to memory that lives as long as the box.
    unsafe {
        (*managed).tensor.manager_ctx = managed.cast();
        Tensor::from_dlpack(&raw mut (*managed).tensor).inspect_err(|_| drop(Box::from_raw(managed)))
    }
}

/// Gives a tensor of [`tensor`] back.
unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: DLPack: called once, by the last owner, with a tensor that has this deleter; its context is its box.
    unsafe { drop(Box::from_raw((*tensor).manager_ctx.cast::<Managed>())) }
}

/// The elements of a tensor on `ext_dev`, in row-major order.
pub(crate) fn elements(tensor: &Tensor) -> Result<Vec<f32>> {
    let (device, dtype) = (tensor.device(), tensor.dtype());
    ensure!(
        device.kind() == device_type::EXT_DEV,
        ValueError,
        "expected a tensor on ext_dev, got one on {device}; copy it there with extension.to_device"
    );
    ensure!(dtype == DataType::FLOAT32, TypeError, "expected float32, got {dtype}");
    ensure!(tensor.is_contiguous(), ValueError, "expected a contiguous tensor");
    let DLTensor { data, byte_offset, .. } = *tensor.dl_tensor();
    let start = data.cast::<u8>().wrapping_add(byte_offset as usize).cast::<f32>();
    // SAFETY: whoever makes a tensor promises that its elements lie there, one after the other; it lives during this function,
    // and ordinary loads reach the memory of `ext_dev`.
    Ok((0..tensor.len()).map(|index| unsafe { start.add(index).read_unaligned() }).collect())
}
