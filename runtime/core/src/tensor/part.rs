//! Tensors that share the data of another one: other shapes, other element types, parts.

use core::ops::Range;
use core::ptr;

use super::Tensor;
use crate::abi::{DLTensor, device_type};
use crate::layout::{Layout, count, row_major, size_of_elements};
use crate::value::{DataType, Device};
use crate::{Error, Result, embedded, ensure, provider};

impl Tensor {
    /// Returns a tensor with another shape and element type over the bytes of this contiguous
    /// tensor, starting at `byte_offset`. The data is not copied, and lives as long as either
    /// tensor.
    ///
    /// ```
    /// use kernpack::{DataType, Tensor};
    /// let words = Tensor::from_slice(&[1u32, 2, 3, 4], &[4])?;
    /// let last = words.view_as(&[2, 4], DataType::UINT8, 8)?;
    /// assert_eq!(last.to(kernpack::Device::CPU)?.view::<u8>()?.get(&[1, 0]), Some(4));
    /// assert!(words.view_as(&[2, 4], DataType::UINT8, 9).is_err(), "the end is checked");
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a ValueError if this tensor is not contiguous, or if the requested bytes are not all
    /// within it.
    pub fn view_as(&self, shape: &[i64], dtype: DataType, byte_offset: u64) -> Result<Self> {
        let layout = Layout::of(self.dl_tensor()).map_err(Error::value_error)?;
        ensure!(
            layout.is_contiguous(),
            ValueError,
            "the tensor is not contiguous: shape {:?}, strides {:?} (in elements); only parts of it (Tensor::slice) can share its \
             data",
            layout.shape,
            layout.strides.unwrap_or_default()
        );
        let size = size_of_elements(dtype, count(shape)?)
            .ok_or_else(|| crate::error!(ValueError, "a tensor of shape {shape:?} is larger than memory"))?;
        let have = self.size_in_bytes();
        let end = u64::try_from(size).ok().and_then(|size| size.checked_add(byte_offset));
        ensure!(
            end.is_some_and(|end| end <= have as u64),
            ValueError,
            "{size} bytes from byte {byte_offset} on are not in the tensor, which has {have}"
        );
        self.sharing(shape, &row_major(shape), dtype, byte_offset)
    }

    /// Returns the same elements, in row-major order, in another shape, without copying.
    ///
    /// # Errors
    /// Returns a ValueError if the tensor is not contiguous, or if the shape has a different number
    /// of elements.
    pub fn reshape(&self, shape: &[i64]) -> Result<Self> {
        let len = count(shape)?;
        ensure!(
            len == self.len(),
            ValueError,
            "a tensor of shape {:?}, which has {} elements, cannot have shape {shape:?}, which has {len}",
            self.shape(),
            self.len()
        );
        self.view_as(shape, self.dtype(), 0)
    }

    /// Returns a part along the first axis, without copying; the strides stay the same.
    ///
    /// ```
    /// use kernpack::Tensor;
    /// let rows = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], &[3, 2])?;
    /// assert_eq!(rows.slice(1..3)?.view::<i32>()?.to_vec(), [3, 4, 5, 6]);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an IndexError if the range is not within the first dimension, and a ValueError if
    /// its first element does not start at a byte boundary.
    pub fn slice(&self, range: Range<i64>) -> Result<Self> {
        let layout = Layout::of(self.dl_tensor()).map_err(Error::value_error)?;
        let Some((&dimension, rest)) = layout.shape.split_first() else {
            return Err(Error::index_error("a tensor without dimensions has no parts"));
        };
        let Range { start, end } = range;
        ensure!(
            0 <= start && start <= end && end <= dimension,
            IndexError,
            "{start}..{end} is not a range in the first dimension, which is {dimension}"
        );
        let strides = layout.strides.map_or_else(|| row_major(layout.shape), <[i64]>::to_vec);
        let dtype = self.dtype();
        // The stride in bits: several elements of int4 share a byte.
        let bits = match size_of_elements(dtype, 8) {
            Some(bytes) => bytes as i128,
            None => return Err(crate::error!(ValueError, "elements of type {dtype} have no size")),
        };
        // An empty part is never read, so it may start at the beginning.
        let first = if start == end || layout.len == 0 {
            0
        } else {
            let first = (i128::from(start) * i128::from(strides[0])).checked_mul(bits);
            first.ok_or_else(|| outside(&strides))?
        };
        ensure!(
            first % 8 == 0,
            ValueError,
            "element {start} of the first axis does not begin with a byte: {dtype} is packed"
        );
        let shape: Vec<i64> = core::iter::once(end - start).chain(rest.iter().copied()).collect();
        match i64::try_from(first / 8) {
            Ok(bytes) => self.sharing_at(&shape, &strides, dtype, bytes),
            Err(_) => Err(outside(&strides)),
        }
    }

    fn sharing(&self, shape: &[i64], strides: &[i64], dtype: DataType, byte_offset: u64) -> Result<Self> {
        match i64::try_from(byte_offset) {
            Ok(bytes) => self.sharing_at(shape, strides, dtype, bytes),
            Err(_) => Err(crate::error!(ValueError, "byte {byte_offset} is in no tensor")),
        }
    }

    /// Creates a tensor over this one's data, at an offset of `bytes`. The caller has checked that
    /// it stays inside.
    fn sharing_at(&self, shape: &[i64], strides: &[i64], dtype: DataType, bytes: i64) -> Result<Self> {
        let (mut shape, mut strides) = (shape.to_vec(), strides.to_vec());
        let whole = self.dl_tensor();
        let (data, byte_offset) = if is_direct(self.device()) {
            // Many kernels ignore the offset, so it is left unchanged.
            (whole.data.wrapping_byte_offset(bytes as isize), Some(whole.byte_offset))
        } else {
            (whole.data, whole.byte_offset.checked_add_signed(bytes))
        };
        let Some(byte_offset) = byte_offset else {
            return Err(crate::error!(
                ValueError,
                "byte {bytes} behind the offset {} is in no tensor",
                whole.byte_offset
            ));
        };
        let ndim = i32::try_from(shape.len())
            .map_err(|_| crate::error!(ValueError, "a tensor cannot have {} dimensions", shape.len()))?;
        let prototype = DLTensor {
            data,
            device: whole.device,
            ndim,
            dtype: dtype.as_raw(),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset,
        };
        let mut object = ptr::null_mut();
        // SAFETY: the object is a tensor, which the new one keeps alive; the prototype is valid for
        // the call and stays inside.
        unsafe {
            let create = provider::api().tensor_create_unsafe_view;
            Error::check(create(self.as_object().as_ptr(), &raw const prototype, &raw mut object))?;
            // Other implementations of the ABI do not do this.
            if self.is_read_only() {
                embedded::tensor::set_read_only(object);
            }
            Ok(Self::from_raw(object))
        }
    }
}

#[cold]
fn outside(strides: &[i64]) -> Error {
    crate::error!(ValueError, "the tensor's strides {strides:?} lead out of memory")
}

/// Returns whether a device's data is an address that supports pointer arithmetic; on other devices
/// it may be a handle.
pub(super) fn is_direct(device: Device) -> bool {
    device.is_host_accessible() || matches!(device.device_type(), device_type::CUDA | device_type::ROCM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::dlpack_flags;
    use crate::tensor::TensorViewMut;
    use crate::value::{AnyView, FromArg, Schema, ToArg};

    fn numbers() -> Tensor {
        Tensor::from_vec((0..12).collect::<Vec<i32>>(), &[3, 4]).unwrap()
    }

    #[test]
    fn parts_share_the_data() {
        let mut whole = numbers();
        let middle = whole.slice(1..2).unwrap();
        let flat = middle.reshape(&[4]).unwrap();
        assert_eq!(flat.view::<i32>().unwrap().as_slice().unwrap(), [4, 5, 6, 7]);
        assert!(whole.view_mut::<i32>().is_err(), "parts keep the whole shared");
        drop((middle, flat));
        whole.view_mut::<i32>().unwrap().set(&[2, 0], -1);
        let last = whole.slice(2..3).unwrap();
        drop(whole);
        assert_eq!(last.view::<i32>().unwrap().to_vec(), [-1, 9, 10, 11]);
        assert_eq!(last.slice(1..1).unwrap().shape(), [0, 4]);
        let scalar = last.view_as(&[], DataType::INT32, 4).unwrap();
        assert_eq!(scalar.view::<i32>().unwrap().get(&[]), Some(9));
    }

    #[test]
    fn parts_of_read_only_tensors_are_read_only() {
        let whole = numbers();
        // SAFETY: the tensor is alive.
        unsafe { embedded::tensor::set_read_only(whole.as_object().as_ptr()) };
        let part = whole.slice(1..3).unwrap();
        for tensor in [whole.reshape(&[12]).unwrap(), part.slice(0..1).unwrap(), part, whole] {
            let exported = tensor.to_dlpack().unwrap();
            // SAFETY: a tensor that was just exported; the new one takes ownership of it.
            let again = unsafe {
                assert_eq!((*exported).flags, dlpack_flags::READ_ONLY);
                Tensor::from_dlpack(exported).unwrap()
            };
            for tensor in [&tensor, &again] {
                assert!(tensor.is_read_only() && !tensor.to(Device::CPU).unwrap().is_read_only());
                let argument = tensor.to_arg();
                // SAFETY: the argument borrows from the tensor, which no code writes to.
                let error = unsafe {
                    let argument = AnyView::from_raw(argument.as_raw());
                    let view = TensorViewMut::<i32>::from_arg(&argument).map(drop);
                    view.unwrap_err().into_error("", &Tensor::TYPE, &argument)
                };
                assert!(error.message().contains("the tensor is read-only, but the function writes to it"), "{error}");
            }
        }
    }

    #[test]
    fn parts_that_are_not_there() {
        let whole = numbers();
        let int4 = Tensor::empty("int4".parse().unwrap(), &[3, 3], Device::CPU).unwrap();
        for (result, problem) in [
            (whole.slice(2..4), "IndexError: 2..4 is not a range in the first dimension, which is 3".to_owned()),
            (whole.slice(-1..2), "IndexError: -1..2 is not a range in the first dimension, which is 3".to_owned()),
            #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
            (whole.slice(2..1), "IndexError: 2..1 is not a range in the first dimension, which is 3".to_owned()),
            (
                whole.reshape(&[5]),
                "ValueError: a tensor of shape [3, 4], which has 12 elements, cannot have shape [5], which has 5"
                    .to_owned(),
            ),
            (
                whole.view_as(&[1], DataType::INT64, 41),
                "ValueError: 8 bytes from byte 41 on are not in the tensor, which has 48".to_owned(),
            ),
            (
                whole.view_as(&[0], DataType::INT64, u64::MAX),
                format!("ValueError: 0 bytes from byte {} on are not in the tensor, which has 48", u64::MAX),
            ),
            (
                whole.view_as(&[1 << 40, 1 << 40], DataType::INT64, 0),
                "ValueError: a tensor of shape [1099511627776, 1099511627776] is larger than memory".to_owned(),
            ),
            (
                int4.slice(1..2),
                "ValueError: element 1 of the first axis does not begin with a byte: int4 is packed".to_owned(),
            ),
        ] {
            assert_eq!(result.unwrap_err().to_string(), problem);
        }
        assert_eq!(int4.slice(2..3).unwrap().shape(), [1, 3], "element 6 begins with byte 3");
    }
}
