//! Validation of the memory layout that a `DLTensor` of any origin describes.

mod complex;
mod element;
mod half;

use core::ops::Range;

use crate::abi::{DLTensor, TVMFFIObject, device_type, dtype_code, type_index};
use crate::embedded;
use crate::value::{AnyView, DataType, Device, Mismatch};
pub use complex::Complex;
pub use element::Element;
pub use half::{BF16, F16};

/// The shape and strides of a tensor, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    pub(crate) shape: &'a [i64],
    /// Strides; `None` means row major without gaps.
    pub(crate) strides: Option<&'a [i64]>,
    /// Number of elements.
    pub(crate) len: usize,
}

/// Number of elements of a shape.
pub(crate) fn count(shape: &[i64]) -> crate::Result<usize> {
    let mut len = 1usize;
    for &dimension in shape {
        let Ok(dimension) = usize::try_from(dimension) else {
            return Err(crate::error!(ValueError, "a shape cannot have a negative dimension: {shape:?}"));
        };
        len = len
            .checked_mul(dimension)
            .ok_or_else(|| crate::error!(ValueError, "a tensor of shape {shape:?} is larger than memory"))?;
    }
    Ok(len)
}

/// Returns the strides of a shape in row-major order without gaps, in elements.
pub(crate) fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// Returns the size in bytes of elements without gaps; `None` if that exceeds the address space. As
/// in the stock library, types smaller than a byte are packed, except uint1, which represents a
/// bool.
pub(crate) fn size_of_elements(dtype: DataType, len: usize) -> Option<usize> {
    let raw = dtype.as_raw();
    let bits = match (raw.code, raw.bits, raw.lanes) {
        (dtype_code::UINT, 1, 1) => 8,
        // Scalable vectors do not have a fixed size.
        (_, _, lanes) if (lanes as i16) < 0 => return None,
        (_, bits, lanes) => u128::from(bits) * u128::from(lanes),
    };
    let bytes = u128::try_from(len).ok()?.checked_mul(bits)?.div_ceil(8);
    usize::try_from(bytes).ok().filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// Returns the `DLTensor` of a tensor object or a tensor pointer.
#[inline]
pub(crate) fn dl_tensor<'a>(value: &'a AnyView<'a>) -> Option<&'a DLTensor> {
    // SAFETY: the view's invariant: the type index determines the payload, which lives for `'a`.
    unsafe {
        if value.type_index() == type_index::DL_TENSOR_PTR {
            return value.as_raw().payload.v_ptr.cast::<DLTensor>().as_ref();
        }
        let object: *mut TVMFFIObject = value.object()?;
        ((*object).type_index == type_index::TENSOR).then(|| embedded::body(object))
    }
}

impl<'a> Layout<'a> {
    /// Reads shape and strides of a tensor.
    pub(crate) fn of(tensor: &'a DLTensor) -> Result<Self, String> {
        let Ok(ndim) = usize::try_from(tensor.ndim) else {
            return Err(format!("the tensor has {} dimensions", tensor.ndim));
        };
        if ndim == 0 {
            return Ok(Self { shape: &[], strides: None, len: 1 });
        }
        if tensor.shape.is_null() {
            return Err(format!("the tensor has {ndim} dimensions but no shape"));
        }
        // SAFETY: DLPack: shape, and strides unless NULL, point to `ndim` integers that live as
        // long as the tensor.
        let (shape, strides) = unsafe {
            (
                core::slice::from_raw_parts(tensor.shape, ndim),
                (!tensor.strides.is_null()).then(|| core::slice::from_raw_parts(tensor.strides, ndim)),
            )
        };
        let mut len = 1usize;
        let mut overflow = false;
        for &dimension in shape {
            let Ok(dimension) = usize::try_from(dimension) else {
                return Err(format!("the tensor has a negative dimension: {shape:?}"));
            };
            let (product, wrapped) = len.overflowing_mul(dimension);
            overflow |= wrapped;
            len = product;
        }
        if shape.contains(&0) {
            len = 0;
        } else if overflow || len > isize::MAX as usize / 16 {
            return Err(format!("the tensor's shape {shape:?} is larger than memory"));
        }
        Ok(Self { shape, strides, len })
    }

    /// Returns whether the elements are stored in row-major order without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let Some(strides) = self.strides else { return true };
        if self.len <= 1 {
            return true;
        }
        let mut expected = 1i64;
        for (&dimension, &stride) in self.shape.iter().zip(strides).rev() {
            if dimension != 1 && stride != expected {
                return false;
            }
            expected = expected.saturating_mul(dimension);
        }
        true
    }

    /// Returns the number of bytes from the first element to the one with the lowest address (at
    /// most 0), and to the end of the one with the highest; `None` if that exceeds the address
    /// space. There is at least one element.
    pub(crate) fn reach(&self, dtype: DataType) -> Option<(isize, isize)> {
        let Some(strides) = self.strides else {
            return Some((0, isize::try_from(size_of_elements(dtype, self.len)?).ok()?));
        };
        let raw = dtype.as_raw();
        if raw.bits.is_multiple_of(8) && raw.lanes == 1 && self.is_contiguous() {
            return Some((0, isize::try_from(self.len.checked_mul(usize::from(raw.bits / 8))?).ok()?));
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (&dimension, &stride) in self.shape.iter().zip(strides) {
            let distance = i128::from(dimension - 1).checked_mul(i128::from(stride))?;
            low = low.checked_add(distance.min(0))?;
            high = high.checked_add(distance.max(0))?;
        }
        let size = i128::try_from(dtype.size()).ok()?;
        let bytes = |elements: i128| isize::try_from(elements.checked_mul(size)?).ok();
        Some((bytes(low)?, bytes(high.checked_add(1)?)?))
    }

    /// Returns the distance in elements from the first element to the one at `index`; `None` if out
    /// of range.
    pub(crate) fn offset(&self, index: &[usize]) -> Option<isize> {
        if index.len() != self.shape.len() {
            return None;
        }
        let mut offset = 0isize;
        let mut row_major = 1isize;
        for axis in (0..index.len()).rev() {
            let dimension = self.shape[axis] as usize;
            if index[axis] >= dimension {
                return None;
            }
            let stride = self.strides.map_or(row_major, |strides| strides[axis] as isize);
            // In a tensor without elements, dimensions may exceed the address space; an element in
            // range is never at such a distance.
            offset = offset.wrapping_add((index[axis] as isize).wrapping_mul(stride));
            row_major = row_major.wrapping_mul(dimension as isize);
        }
        Some(offset)
    }
}

/// Checks that the tensor's memory can be read as elements of type `T`, and returns the address of
/// the first one.
#[inline]
pub(crate) fn elements_of<'a, T: Element>(tensor: &'a DLTensor) -> Result<(*mut T, Layout<'a>), Mismatch> {
    match plain_elements_of(tensor) {
        Some(found) => Ok(found),
        None => any_elements_of(tensor),
    }
}

/// Fast path of [`elements_of`] for most tensors: row major without gaps, with few dimensions, in
/// CPU memory. `None` for tensors that need all checks.
#[inline]
fn plain_elements_of<'a, T: Element>(tensor: &'a DLTensor) -> Option<(*mut T, Layout<'a>)> {
    // A negative number becomes a large one.
    let ndim = tensor.ndim as usize;
    let is_of_type = DataType::from_raw(tensor.dtype) == T::DTYPE && tensor.device.device_type == device_type::CPU;
    if !is_of_type || ndim > 16 || tensor.shape.is_null() || tensor.data.is_null() {
        return None;
    }
    // SAFETY: DLPack: shape, and strides unless NULL, point to `ndim` integers that live as long as
    // the tensor.
    let shape = unsafe { core::slice::from_raw_parts(tensor.shape, ndim) };
    let mut len = 1usize;
    for (axis, &dimension) in shape.iter().enumerate().rev() {
        // SAFETY: as above.
        if dimension <= 0 || !tensor.strides.is_null() && unsafe { *tensor.strides.add(axis) } != len as i64 {
            return None;
        }
        len = len.checked_mul(dimension as usize)?;
    }
    let first = tensor.data.wrapping_byte_add(tensor.byte_offset as usize).cast::<T>();
    (len <= isize::MAX as usize / 16 && first.is_aligned()).then_some((first, Layout { shape, strides: None, len }))
}

#[inline(never)]
fn any_elements_of<'a, T: Element>(tensor: &'a DLTensor) -> Result<(*mut T, Layout<'a>), Mismatch> {
    let dtype = DataType::from_raw(tensor.dtype);
    if dtype != T::DTYPE {
        return Err(Mismatch::type_note(format!("expected a tensor of {}, got one of {dtype}", T::NAME)));
    }
    let device = Device::from_raw(tensor.device);
    if !device.is_host_accessible() {
        return Err(Mismatch::value(format!(
            "the tensor is on {device}, but the function reads it on the CPU; copy it first, with .to(Device::CPU)"
        )));
    }
    let layout = Layout::of(tensor).map_err(Mismatch::value)?;
    if layout.len == 0 {
        return Ok((core::ptr::NonNull::dangling().as_ptr(), layout));
    }
    if tensor.data.is_null() {
        return Err(Mismatch::value(format!("the tensor has shape {:?} but no data", layout.shape)));
    }
    let first = tensor.data.wrapping_byte_add(tensor.byte_offset as usize).cast::<T>();
    if !first.is_aligned() {
        return Err(Mismatch::value(format!(
            "the tensor's data is misaligned: {} needs an address divisible by {}; pass a copy",
            T::NAME,
            align_of::<T>()
        )));
    }
    Ok((first, layout))
}

/// Returns the addresses of a CPU tensor's elements; `None` for other values, other devices and
/// empty tensors.
pub(crate) fn byte_range(value: &AnyView<'_>) -> Option<Range<usize>> {
    let tensor = dl_tensor(value)?;
    let layout = Layout::of(tensor).ok()?;
    addresses(tensor, &layout)
}

/// Returns the addresses of a CPU tensor's elements; `None` for other devices and empty tensors.
pub(crate) fn addresses(tensor: &DLTensor, layout: &Layout<'_>) -> Option<Range<usize>> {
    if layout.len == 0 || !Device::from_raw(tensor.device).is_host_accessible() {
        return None;
    }
    let first = (tensor.data as usize).wrapping_add(tensor.byte_offset as usize);
    // A range that exceeds the address space is treated as all of it.
    let (low, high) = layout.reach(DataType::from_raw(tensor.dtype)).unwrap_or((isize::MIN, isize::MAX));
    Some(first.saturating_add_signed(low)..first.saturating_add_signed(high))
}

/// Returns the result of [`elements_of`] and the addresses of the elements; an empty range for a
/// tensor without elements.
#[inline]
pub(crate) fn viewed<'a, T: Element>(tensor: &'a DLTensor) -> Result<(*mut T, Layout<'a>, Range<usize>), Mismatch> {
    match plain_elements_of::<T>(tensor) {
        Some((first, layout)) => {
            let start = first as usize;
            // An element has at most 16 bytes, so the product does not overflow.
            Ok((first, layout, start..start.saturating_add(layout.len * size_of::<T>())))
        }
        None => any_viewed(tensor),
    }
}

#[inline(never)]
fn any_viewed<'a, T: Element>(tensor: &'a DLTensor) -> Result<(*mut T, Layout<'a>, Range<usize>), Mismatch> {
    let (first, layout) = any_elements_of(tensor)?;
    let range = addresses(tensor, &layout).unwrap_or_default();
    Ok((first, layout, range))
}

/// Returns a tensor as a buffer for a kernel, and whether its elements are stored in row-major
/// order without gaps; `None` for values that are not tensors.
#[inline]
pub(crate) fn buffer<'a>(value: &'a AnyView<'a>) -> Result<Option<(&'a DLTensor, bool)>, String> {
    let Some(tensor) = dl_tensor(value) else { return Ok(None) };
    if is_row_major(tensor) {
        return Ok(Some((tensor, true)));
    }
    Ok(Some((tensor, Layout::of(tensor)?.is_contiguous())))
}

/// Returns the type of a tensor's elements; `None` for values that are not tensors.
#[inline]
pub(crate) fn element_type(value: &AnyView<'_>) -> Option<DataType> {
    dl_tensor(value).map(|tensor| DataType::from_raw(tensor.dtype))
}

/// Returns whether the strides equal those of a row-major tensor without gaps. If not, the caller
/// checks more closely.
#[inline]
fn is_row_major(tensor: &DLTensor) -> bool {
    if tensor.strides.is_null() {
        return true;
    }
    let ndim = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
    if ndim > 64 || tensor.shape.is_null() {
        return false;
    }
    let mut expected = 1i64;
    for axis in (0..ndim).rev() {
        // SAFETY: DLPack: shape and strides point to `ndim` integers that live as long as the
        // tensor.
        let (dimension, stride) = unsafe { (*tensor.shape.add(axis), *tensor.strides.add(axis)) };
        if stride != expected || dimension < 0 {
            return false;
        }
        expected = expected.wrapping_mul(dimension);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_in_an_empty_tensor() {
        let shape = [0, 1 << 62, 4];
        for strides in [None, Some(&[1, i64::MAX, i64::MAX][..])] {
            let layout = Layout { shape: &shape, strides, len: 0 };
            assert_eq!(layout.offset(&[0, 5, 3]), None);
        }
    }
}
