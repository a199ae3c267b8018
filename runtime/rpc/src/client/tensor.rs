//! Tensors that servers return.

use core::ptr::null_mut;
use std::sync::Arc;

use kernpack::sys::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor};
use kernpack::{Error, Result, Tensor, error};

use super::memory::Block;
use super::shared::{Free, Shared};
use super::slots;
use crate::wire::TensorHeader;

/// The DLPack version of [`DLManagedTensorVersioned`].
const DLPACK: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

/// The allocation behind a tensor: its DLPack description, shape and strides.
struct Managed {
    tensor: DLManagedTensorVersioned,
    dimensions: Vec<i64>,
}

/// Creates a local tensor for one of the server, whose handle it frees when it is dropped.
pub(super) fn tensor(shared: &Arc<Shared>, header: &TensorHeader, raw: u64) -> Result<Tensor> {
    let prepared = header.size().map_err(Error::from).and_then(|_| {
        let device = shared.device(header.device)?;
        slots::offer(device.device_type())?;
        let ndim = i32::try_from(header.shape.len());
        Ok((device, ndim.map_err(|_| error!(ValueError, "a tensor of {} dimensions", header.shape.len()))?))
    });
    let (device, ndim) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            shared.free(Free::Handle(raw));
            return Err(error);
        }
    };
    let data = Block::of_tensor(shared, header.device, header.data, raw);
    let mut dimensions = header.shape.clone();
    dimensions.extend(row_major(&header.shape));
    let shape = dimensions.as_mut_ptr();
    let managed = Box::new(Managed {
        tensor: DLManagedTensorVersioned {
            version: DLPACK,
            manager_ctx: null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data,
                device: device.as_raw(),
                ndim,
                dtype: header.dtype.as_raw(),
                shape,
                strides: shape.wrapping_add(header.shape.len()),
                byte_offset: header.byte_offset,
            },
        },
        dimensions,
    });
    let managed = Box::into_raw(managed);
    // SAFETY: the tensor is valid, shape and strides live as long as `Managed`; on success its
    // deleter ends it, else we do.
    unsafe {
        (*managed).tensor.manager_ctx = managed.cast();
        let tensor = &raw mut (*managed).tensor;
        Tensor::from_dlpack(tensor).inspect_err(|_| delete(tensor))
    }
}

/// # Safety
/// `tensor` is the description in a [`Managed`] that was made above, and is not used any more.
unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: promised by the caller.
    let managed = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Managed>()) };
    Block::forget(managed.tensor.dl_tensor.data);
    drop(managed.dimensions);
}

/// The strides of a contiguous shape, in elements.
fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// The server's description of a tensor of its session.
pub(super) fn header(shared: &Shared, tensor: &DLTensor) -> Result<TensorHeader> {
    let device = kernpack::Device::from_raw(tensor.device);
    if device.session().is_none() {
        return Err(error!(
            ValueError,
            "the tensor is on {device} of this process, and the function runs on {}; copy it there first: \
             tensor.to(session.device(\"cpu:0\")?)?",
            shared.peer
        ));
    }
    let block = Block::of(tensor.data)?;
    if block.shared.id != shared.id {
        return Err(shared.not_ours("the tensor", &block.shared.peer));
    }
    Ok(TensorHeader {
        data: block.address,
        device: shared.own_device(device)?,
        dtype: kernpack::DataType::from_raw(tensor.dtype),
        shape: contiguous_shape(tensor)?.to_vec(),
        byte_offset: tensor.byte_offset,
    })
}

/// The shape of a contiguous tensor: strides are never sent.
fn contiguous_shape(tensor: &DLTensor) -> Result<&[i64]> {
    let ndim =
        usize::try_from(tensor.ndim).map_err(|_| error!(ValueError, "the tensor has {} dimensions", tensor.ndim))?;
    if ndim == 0 || tensor.shape.is_null() {
        return Ok(&[]);
    }
    // SAFETY: DLPack: shape, and strides unless NULL, point to `ndim` integers that live as long as
    // the tensor.
    let (shape, strides) = unsafe {
        (
            core::slice::from_raw_parts(tensor.shape, ndim),
            (!tensor.strides.is_null()).then(|| core::slice::from_raw_parts(tensor.strides, ndim)),
        )
    };
    let Some(strides) = strides else { return Ok(shape) };
    let expected = row_major(shape);
    let fits = shape.contains(&0)
        || shape
            .iter()
            .zip(strides)
            .zip(&expected)
            .all(|((&dimension, stride), expected)| dimension == 1 || stride == expected);
    if !fits {
        return Err(error!(
            ValueError,
            "a remote tensor that is given to a function has no gaps; this one has shape {shape:?}, strides {strides:?} (in elements)"
        ));
    }
    Ok(shape)
}
