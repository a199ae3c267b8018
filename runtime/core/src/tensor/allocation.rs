//! Tensors in newly allocated memory of a device, and the environment's tensor allocator.

use core::ptr;

use super::Tensor;
use crate::abi::DLTensor;
use crate::device::DeviceMemory;
use crate::layout::Element;
use crate::layout::{count, elements_of, row_major, size_of_elements};
use crate::value::{AnyView, DataType, Device, Schema};
use crate::{Error, Result, ensure, provider};

/// Size of a cache line and of the widest vector register; the kernels of Apache TVM rely on it.
const ALIGNMENT: usize = 64;

impl Tensor {
    /// Creates a tensor in newly allocated memory of a device, in row-major order, aligned to 64
    /// bytes. On the CPU it is filled with zeros; on other devices its content is undefined.
    ///
    /// ```
    /// use kernpack::{DataType, Device, Tensor};
    /// let tensor = Tensor::empty("float32x4".parse()?, &[2, 3], Device::CPU)?;
    /// assert_eq!((tensor.shape(), tensor.size_in_bytes()), (&[2, 3][..], 96));
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a ValueError for a negative dimension or an element type without a size, a
    /// MemoryError if the device does not have enough memory, and a RuntimeError if no API in the
    /// process serves the device.
    pub fn empty(dtype: DataType, shape: &[i64], device: Device) -> Result<Self> {
        let tensor = Self::uninitialized(dtype, shape, device)?;
        if device.is_host_accessible() {
            let data = tensor.dl_tensor().data.cast::<u8>();
            // Rust code can read the memory, and uninitialized memory does not have a value.
            // SAFETY: memory of that size which no other code uses.
            unsafe { data.write_bytes(0, tensor.size_in_bytes()) };
        }
        Ok(tensor)
    }

    /// Creates a tensor of zeros on the CPU, aligned to 64 bytes.
    ///
    /// # Errors
    /// Returns a ValueError for a negative dimension, and a MemoryError if there is not enough
    /// memory.
    pub fn zeros<T: Element>(shape: &[i64]) -> Result<Self> {
        Self::empty(T::DTYPE, shape, Device::CPU)
    }

    /// Creates a tensor with memory of the environment's allocator: that of the calling framework,
    /// for example PyTorch's caching allocator. If no framework has set one, like
    /// [`Tensor::empty`].
    ///
    /// # Errors
    /// Returns the error of the allocator, or of [`Tensor::empty`].
    pub fn from_env_alloc(dtype: DataType, shape: &[i64], device: Device) -> Result<Self> {
        size(dtype, shape)?;
        // SAFETY: a plain query.
        if unsafe { (provider::api().env_get_tensor_allocator)() }.is_none() {
            return Self::empty(dtype, shape, device);
        }
        let (mut shape, mut strides) = (shape.to_vec(), row_major(shape));
        let mut prototype = DLTensor {
            data: ptr::null_mut(),
            device: device.as_raw(),
            ndim: ndim(&shape)?,
            dtype: dtype.as_raw(),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let mut object = ptr::null_mut();
        // SAFETY: the prototype is valid for the call; on success this function owns the reference.
        unsafe {
            Error::check((provider::api().env_tensor_alloc)(&raw mut prototype, &raw mut object))?;
            Ok(Self::from_raw(object))
        }
    }

    /// Creates a tensor on the CPU for results, and returns the address of its first element. The
    /// memory comes from the environment's allocator, or is newly allocated. The caller writes
    /// every element before it passes the tensor on.
    pub(crate) fn for_results<T: Element>(shape: &[i64]) -> Result<(Self, *mut T)> {
        // SAFETY: a plain query.
        let has_allocator = unsafe { (provider::api().env_get_tensor_allocator)() }.is_some();
        let tensor = match has_allocator {
            true => Self::from_env_alloc(T::DTYPE, shape, Device::CPU)?,
            false => Self::uninitialized(T::DTYPE, shape, Device::CPU)?,
        };
        let (first, layout) = elements_of::<T>(tensor.dl_tensor()).map_err(|mismatch| {
            mismatch.into_error("the environment's tensor allocator: ", &Self::TYPE, &AnyView::NONE)
        })?;
        ensure!(
            layout.is_contiguous() && layout.shape == shape,
            RuntimeError,
            "the environment's tensor allocator gave a tensor of shape {:?} and strides {:?} for one of shape {shape:?}",
            layout.shape,
            layout.strides.unwrap_or_default()
        );
        Ok((tensor, first))
    }

    /// Size of the elements in bytes, without gaps.
    pub fn size_in_bytes(&self) -> usize {
        size_of_elements(self.dtype(), self.len()).unwrap_or(0)
    }

    /// Creates a tensor in newly allocated memory. The code that returns it has written to it, if
    /// it is CPU memory.
    pub(super) fn uninitialized(dtype: DataType, shape: &[i64], device: Device) -> Result<Self> {
        let size = size(dtype, shape)?;
        ndim(shape)?;
        let memory = DeviceMemory::new(device, size, ALIGNMENT)?;
        Self::with_storage(memory.data(), device, dtype, shape, memory)
    }
}

/// Size of a new tensor in bytes.
fn size(dtype: DataType, shape: &[i64]) -> Result<usize> {
    let len = count(shape)?;
    let raw = dtype.as_raw();
    ensure!(
        raw.bits > 0 && raw.lanes > 0 && raw.lanes as i16 > 0,
        ValueError,
        "elements of type {dtype} have no size, so there is no tensor of them"
    );
    size_of_elements(dtype, len)
        .ok_or_else(|| crate::error!(ValueError, "a tensor of shape {shape:?} is larger than memory"))
}

fn ndim(shape: &[i64]) -> Result<i32> {
    i32::try_from(shape.len()).map_err(|_| crate::error!(ValueError, "a tensor cannot have {} dimensions", shape.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::device_type;

    #[test]
    fn what_cannot_be_allocated() {
        let f32 = DataType::FLOAT32;
        let void = DataType::scalar(3, 0);
        let metal = Device::new(device_type::METAL, 0);
        let unknown = "no library in this process provides metal devices; load a library that brings them (kernpack::device_api!)";
        for (dtype, shape, device, problem) in [
            (
                f32,
                &[2, -1][..],
                Device::CPU,
                "ValueError: a shape cannot have a negative dimension: [2, -1]".to_owned(),
            ),
            (
                f32,
                &[1 << 62],
                Device::CPU,
                format!("ValueError: a tensor of shape [{}] is larger than memory", 1u64 << 62),
            ),
            (
                f32,
                &[i64::MAX, 3],
                Device::CPU,
                format!("ValueError: a tensor of shape [{}, 3] is larger than memory", i64::MAX),
            ),
            (
                f32,
                &[1 << 57],
                Device::CPU,
                format!("MemoryError: out of memory: there are no {} bytes left on cpu:0", 1u64 << 59),
            ),
            (
                void,
                &[1],
                Device::CPU,
                format!("ValueError: elements of type {void} have no size, so there is no tensor of them"),
            ),
            (f32, &[1], metal, format!("RuntimeError: {unknown}")),
        ] {
            assert_eq!(Tensor::empty(dtype, shape, device).unwrap_err().to_string(), problem);
            assert_eq!(Tensor::from_env_alloc(dtype, shape, device).unwrap_err().to_string(), problem);
        }
        assert_eq!(Tensor::zeros::<f32>(&[1 << 57]).unwrap_err().kind(), "MemoryError");
    }

    #[test]
    fn sizes_of_small_elements() {
        for (dtype, shape, bytes) in [
            ("int4", &[5][..], 3),
            ("uint1", &[5], 5),
            ("bool", &[5], 5),
            ("float4_e2m1fnx2", &[2, 2], 4),
            ("int8", &[], 1),
        ] {
            for allocate in [Tensor::empty, Tensor::from_env_alloc] {
                let tensor = allocate(dtype.parse().unwrap(), shape, Device::CPU).unwrap();
                assert_eq!((tensor.size_in_bytes(), tensor.shape()), (bytes, shape), "{dtype}");
                assert_eq!(tensor.dl_tensor().data as usize % ALIGNMENT, 0);
            }
        }
        assert!(Tensor::empty(DataType::INT64, &[0, 7], Device::CPU).unwrap().is_empty());
    }
}
