//! Structural hash and equality of tensors.

use crate::abi::{DLDataType, DLTensor, TVMFFIObject, device_type};
use crate::embedded::any_hash::{combine, hash_bytes};
use crate::embedded::tensor::dl_tensor;
use crate::{Result, bail};

/// The hash of a tensor; `key_hash` is that of its type.
///
/// # Safety
/// `tensor` is a live tensor object, and its data is not written to.
pub(super) unsafe fn hash(tensor: *mut TVMFFIObject, key_hash: u64, skip_content: bool) -> Result<u64> {
    // SAFETY: promised by the caller.
    unsafe {
        let tensor = dl_tensor(tensor);
        let hash = combine(key_hash, i64::from(tensor.ndim).cast_unsigned());
        let hash = shape(tensor).iter().fold(hash, |hash, dimension| combine(hash, dimension.cast_unsigned()));
        let DLDataType { code, bits, lanes } = tensor.dtype;
        let hash = combine(hash, u64::from(code) | u64::from(bits) << 8 | u64::from(lanes) << 16);
        if skip_content {
            return Ok(hash);
        }
        check_device(tensor, "tensor", "hash")?;
        check_contiguous(tensor, "tensor", "hash")?;
        Ok(combine(hash, hash_bytes(content(tensor)?)))
    }
}

/// Returns true if two tensors are equal.
///
/// # Safety
/// As for [`hash`], for both.
pub(super) unsafe fn equal(left: *mut TVMFFIObject, right: *mut TVMFFIObject, skip_content: bool) -> Result<bool> {
    if left == right {
        return Ok(true);
    }
    // SAFETY: promised by the caller.
    unsafe {
        let (left, right) = (dl_tensor(left), dl_tensor(right));
        let dtype = |tensor: &DLTensor| (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
        if shape(left) != shape(right) || dtype(left) != dtype(right) {
            return Ok(false);
        }
        if skip_content {
            return Ok(true);
        }
        check_device(left, "lhs", "compare")?;
        check_device(right, "rhs", "compare")?;
        check_contiguous(left, "lhs", "compare")?;
        check_contiguous(right, "rhs", "compare")?;
        Ok(content(left)? == content(right)?)
    }
}

/// The dimensions, borrowed from the tensor.
///
/// # Safety
/// The tensor is alive for `'a`.
unsafe fn shape<'a>(tensor: &DLTensor) -> &'a [i64] {
    match usize::try_from(tensor.ndim) {
        // SAFETY: promised by the caller: a tensor's shape has `ndim` elements.
        Ok(ndim) if ndim > 0 && !tensor.shape.is_null() => unsafe { core::slice::from_raw_parts(tensor.shape, ndim) },
        _ => &[],
    }
}

/// An error unless the tensor is in CPU memory. `place` and `purpose` are for the message.
fn check_device(tensor: &DLTensor, place: &str, purpose: &str) -> Result<()> {
    let device = tensor.device.device_type;
    if device == device_type::CPU {
        return Ok(());
    }
    bail!(
        InternalError,
        "Check failed: {place}.device().device_type == kDLCPU ({device} vs. 1) : can only {purpose} CPU tensor"
    )
}

/// An error unless the elements are contiguous.
///
/// # Safety
/// The tensor is alive.
unsafe fn check_contiguous(tensor: &DLTensor, place: &str, purpose: &str) -> Result<()> {
    // SAFETY: promised by the caller.
    if unsafe { is_contiguous(tensor) } {
        return Ok(());
    }
    bail!(InternalError, "Check failed: ({place}.IsContiguous()) is false: Can only {purpose} contiguous tensor")
}

unsafe fn is_contiguous(tensor: &DLTensor) -> bool {
    // SAFETY: promised by the caller; there are as many strides as dimensions.
    unsafe {
        let shape = shape(tensor);
        if tensor.strides.is_null() || shape.contains(&0) {
            return true;
        }
        let mut expected = 1_i64;
        for (at, &dimension) in shape.iter().enumerate().rev() {
            if dimension == 1 {
                continue;
            }
            if *tensor.strides.add(at) != expected {
                return false;
            }
            expected = expected.wrapping_mul(dimension);
        }
        true
    }
}

/// The elements of a contiguous tensor in CPU memory.
///
/// # Safety
/// The tensor is alive for `'a`, and is not written to.
unsafe fn content<'a>(tensor: &DLTensor) -> Result<&'a [u8]> {
    // SAFETY: promised by the caller.
    let count = unsafe { shape(tensor) }
        .iter()
        .try_fold(1_u64, |count, &dimension| count.checked_mul(u64::try_from(dimension).ok()?));
    let bits = u64::from(tensor.dtype.bits) * u64::from(tensor.dtype.lanes);
    let size = count.and_then(|count| count.checked_mul(bits)).map(|bits| bits.div_ceil(8));
    match size.map(usize::try_from) {
        Some(Ok(0)) => Ok(&[]),
        Some(Ok(size)) if size <= isize::MAX as usize && !tensor.data.is_null() => {
            // SAFETY: a contiguous tensor has that many bytes.
            Ok(unsafe { core::slice::from_raw_parts(tensor.data.cast(), size) })
        }
        _ => bail!(ValueError, "a tensor without the data that its shape and type ask for"),
    }
}
