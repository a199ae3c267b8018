//! Tensors of the runtime as bytes, and back.

use kernpack::{DataType, Device, Tensor};
use kernpack_compiler::ir::U8;

use crate::constant::{element_bytes, num_elements};
use crate::error::{Result, require};

/// Returns the elements of a tensor as bytes in memory.
///
/// # Errors
/// Returns an error if it is not on the CPU, or not dense.
pub fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    if tensor.is_empty() {
        return Ok(Vec::new());
    }
    let size = i64::try_from(tensor.size_in_bytes()).unwrap_or(i64::MAX);
    Ok(tensor.view_as(&[size], U8, 0)?.view::<u8>()?.to_vec())
}

/// Creates a tensor from bytes.
///
/// # Errors
/// Returns an error if the number of bytes does not match the shape.
pub fn tensor_of(dtype: DataType, shape: &[i64], bytes: &[u8]) -> Result<Tensor> {
    let expected = num_elements(shape)?.saturating_mul(element_bytes(dtype));
    require!(bytes.len() == expected, "{} bytes for {dtype}{shape:?}, which has {expected}", bytes.len());
    if bytes.is_empty() {
        return Ok(Tensor::empty(dtype, shape, Device::CPU)?);
    }
    let count = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    Ok(Tensor::from_slice(bytes, &[count])?.view_as(shape, dtype, 0)?)
}
