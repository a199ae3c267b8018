//! A value that the `State` of a model keeps from one call to the next one, with extents that
//! are passed at each call, such as the keys and values of the words that a decoder has seen.

use core::fmt;

use crate::abi::{DLTensor, TVMFFIAny, type_index};
use crate::value::{AnyView, Arg, DataType};
use crate::{Device, Error, Result, Tensor};

/// The value of the last call, and memory for that of the next one. The two alternate, and become
/// larger when a call needs more. The value is empty or all zeros before the first call.
pub struct Cache {
    /// The names of the model and the input, for errors.
    names: [&'static str; 2],
    /// The axis that grows, if there is one.
    axis: Option<usize>,
    /// The value before the call, and behind it.
    sides: [Side; 2],
    /// True as long as there is no value of an earlier call.
    is_fresh: bool,
}

/// Memory, and the tensor in it.
struct Side {
    memory: Tensor,
    tensor: Box<DLTensor>,
    shape: Vec<i64>,
}

// SAFETY: the pointers of a side point to its own memory and shape, which it owns.
unsafe impl Send for Side {}
// SAFETY: as above; a shared reference reads them only.
unsafe impl Sync for Side {}

impl fmt::Debug for Cache {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, name] = self.names;
        f.debug_struct("Cache").field("name", &name).field("shape", &self.sides[0].shape).finish_non_exhaustive()
    }
}

impl Side {
    #[inline]
    fn new(dtype: DataType) -> Result<Self> {
        let memory = Tensor::zeros::<u8>(&[0])?;
        let tensor = Box::new(DLTensor {
            data: memory.dl_tensor().data,
            device: Device::CPU.as_raw(),
            ndim: 0,
            dtype: dtype.as_raw(),
            shape: core::ptr::null_mut(),
            strides: core::ptr::null_mut(),
            byte_offset: 0,
        });
        Ok(Self { memory, tensor, shape: Vec::new() })
    }

    /// Sets the extents, and makes the memory large enough. Returns true if it is new, and all
    /// zeros.
    #[inline]
    fn reshape(&mut self, shape: &[i64]) -> Result<bool> {
        let own = usize::from(self.tensor.dtype.bits).div_ceil(8);
        let bytes = shape
            .iter()
            .try_fold(own, |bytes, extent| bytes.checked_mul(usize::try_from(*extent).ok()?))
            .and_then(|bytes| i64::try_from(bytes).ok())
            .ok_or_else(|| Error::value_error(format!("a value of shape {shape:?} is larger than memory")))?;
        let have = self.memory.len();
        let is_small = usize::try_from(bytes).map_or(true, |bytes| bytes > have);
        if is_small {
            let twice = i64::try_from(have).unwrap_or(0).saturating_mul(2);
            self.memory = Tensor::zeros::<u8>(&[bytes.max(twice)])?;
            self.tensor.data = self.memory.dl_tensor().data;
        }
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        self.tensor.shape = self.shape.as_mut_ptr();
        self.tensor.ndim = i32::try_from(self.shape.len()).unwrap_or(0);
        Ok(is_small)
    }

    #[inline]
    fn arg(&self) -> Arg<'_> {
        let tensor = core::ptr::from_ref::<DLTensor>(&self.tensor);
        let raw = TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast_mut().cast());
        // SAFETY: the tensor and what it points to live as long as `self`, which the argument
        // borrows.
        Arg::borrowed(unsafe { AnyView::from_raw(raw) })
    }
}

impl Cache {
    /// Creates the cache of an input of a model, `names`. `axis` is the axis that grows from call
    /// to call, if there is one.
    ///
    /// # Errors
    /// MemoryError.
    #[inline]
    pub fn new(names: [&'static str; 2], dtype: DataType, axis: Option<usize>) -> Result<Self> {
        let sides = [Side::new(dtype)?, Side::new(dtype)?];
        Ok(Self { names, axis, sides, is_fresh: true })
    }

    /// Returns the extent of the value along an axis. 0 before the first call.
    #[inline]
    pub fn extent(&self, axis: usize) -> i64 {
        self.sides[0].shape.get(axis).copied().unwrap_or(0)
    }

    /// Prepares a call, which reads a value of the first shape and writes one of the second.
    ///
    /// # Errors
    /// A ValueError if the value has another shape, and MemoryError.
    #[inline]
    pub fn begin(&mut self, before: &[i64], after: &[i64]) -> Result<()> {
        let [model, name] = self.names;
        let [first, second] = &mut self.sides;
        if self.is_fresh {
            if !first.reshape(before)? && self.axis.is_none() {
                // SAFETY: `reshape` made the memory large enough, and no other code uses it.
                unsafe { first.tensor.data.cast::<u8>().write_bytes(0, first.memory.len()) };
            }
        } else if first.shape != before {
            return Err(Error::value_error(format!(
                "{model}: the state has {name} {:?}, and the call needs {before:?}; call `reset` before a call with another batch",
                first.shape
            )));
        }
        second.reshape(after)?;
        Ok(())
    }

    /// The value of the last call, as an argument.
    #[inline]
    pub fn before(&self) -> Arg<'_> {
        self.sides[0].arg()
    }

    /// The value for the next call, as an argument.
    #[inline]
    pub fn after(&self) -> Arg<'_> {
        self.sides[1].arg()
    }

    /// Ends a call that has written its value.
    #[inline]
    pub fn advance(&mut self) {
        self.sides.swap(0, 1);
        self.is_fresh = false;
    }

    /// Forgets the value.
    #[inline]
    pub fn reset(&mut self) {
        self.sides[0].shape.clear();
        self.is_fresh = true;
    }
}
