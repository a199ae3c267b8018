use core::ffi::c_void;
use core::fmt;

use super::{TensorView, TensorViewMut};
use crate::abi::{DLManagedTensorVersioned, DLTensor, dlpack_flags, type_index};
use crate::layout::Element;
use crate::layout::{Layout, count, row_major};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{
    Any, AnyView, Arg, DataType, Device, FromAny, IntoAny, Mismatch, Schema, Shown, ToArg, TypeSchema, raw_handle,
};
use crate::{Error, Result, embedded, provider};

/// A counted reference to a tensor: element type, shape, strides, device, and data that DLPack
/// shares with other frameworks.
pub struct Tensor {
    object: ObjRef<ObjectRoot>,
    /// True if Rust allocated the data, so that no code outside this object can access it.
    exclusive: bool,
}

/// A tensor object whose data is `storage`.
#[repr(C)]
struct Body<S> {
    tensor: DLTensor,
    /// Shape, then strides.
    dimensions: Vec<i64>,
    storage: S,
}

// SAFETY: the pointers in `tensor` point into `dimensions` and `storage`; the body is dropped on
// one thread.
unsafe impl<S: Send> Send for Body<S> {}

// The pointer may come from another handle of the object, so its data is not written in place.
raw_handle!(ObjRef: => Tensor, "`ffi.Tensor`", exclusive: false);

impl Tensor {
    /// Creates a tensor on the CPU that takes ownership of `values`, in row-major order, without
    /// copying.
    ///
    /// # Errors
    /// Returns a ValueError if the number of values is not the product of `shape`.
    pub fn from_vec<T: Element>(mut values: Vec<T>, shape: &[i64]) -> Result<Self> {
        let len = count(shape)?;
        if values.len() != len {
            return Err(crate::error!(
                ValueError,
                "{} values do not fill a tensor of shape {shape:?}, which has {len}",
                values.len()
            ));
        }
        let data = if len == 0 { core::ptr::null_mut() } else { values.as_mut_ptr().cast() };
        Self::with_storage(data, Device::CPU, T::DTYPE, shape, values)
    }

    /// Creates a tensor on the CPU with a copy of `values`, in row-major order.
    ///
    /// # Errors
    /// As for [`Tensor::from_vec`].
    pub fn from_slice<T: Element>(values: &[T], shape: &[i64]) -> Result<Self> {
        Self::from_vec(values.to_vec(), shape)
    }

    /// Creates a row-major tensor of `data` on `device` that keeps `storage` alive, which no other
    /// code can access.
    pub(super) fn with_storage<S>(
        data: *mut c_void,
        device: Device,
        dtype: DataType,
        shape: &[i64],
        storage: S,
    ) -> Result<Self> {
        let ndim = i32::try_from(shape.len())
            .map_err(|_| crate::error!(ValueError, "a tensor cannot have {} dimensions", shape.len()))?;
        let mut dimensions = Vec::with_capacity(2 * shape.len());
        dimensions.extend_from_slice(shape);
        dimensions.extend(row_major(shape));
        let start = dimensions.as_mut_ptr();
        let tensor = DLTensor {
            data,
            device: device.as_raw(),
            ndim,
            dtype: dtype.as_raw(),
            shape: start,
            strides: start.wrapping_add(shape.len()),
            byte_offset: 0,
        };
        let object = embedded::new_object(type_index::TENSOR, Body { tensor, dimensions, storage });
        // SAFETY: a new tensor object, whose one reference is this one.
        Ok(Self { object: unsafe { ObjRef::from_raw(object) }, exclusive: true })
    }

    /// Borrows the tensor as an object.
    #[doc(hidden)]
    pub const fn as_object(&self) -> &ObjRef<ObjectRoot> {
        &self.object
    }

    /// Creates a tensor that shares the data of a DLPack tensor and releases it when the tensor is
    /// destroyed.
    ///
    /// # Errors
    /// Returns the host's error; `managed` then still belongs to the caller.
    ///
    /// # Safety
    /// `managed` is a valid DLPack tensor that the caller owns; on success the result owns it.
    pub unsafe fn from_dlpack(managed: *mut DLManagedTensorVersioned) -> Result<Self> {
        let mut object = core::ptr::null_mut();
        // SAFETY: promised by the caller.
        unsafe {
            let is_read_only = !managed.is_null() && (*managed).flags & dlpack_flags::READ_ONLY != 0;
            Error::check((provider::api().tensor_from_dlpack_versioned)(managed, 0, 0, &mut object))?;
            // Other implementations of the ABI drop the flag.
            if is_read_only {
                embedded::tensor::set_read_only(object);
            }
            Ok(Self::from_raw(object))
        }
    }

    /// Creates a DLPack tensor that shares the data and keeps this tensor alive; the receiver calls
    /// its deleter.
    ///
    /// # Errors
    /// Returns the host's error.
    pub fn to_dlpack(&self) -> Result<*mut DLManagedTensorVersioned> {
        let mut managed = core::ptr::null_mut();
        // SAFETY: the object is a tensor and alive; `managed` is writable.
        unsafe {
            Error::check((provider::api().tensor_to_dlpack_versioned)(self.object.as_ptr(), &mut managed))?;
            if self.is_read_only() {
                (*managed).flags |= dlpack_flags::READ_ONLY;
            }
        }
        Ok(managed)
    }

    /// Returns true if the memory came from another framework as read-only: no `TensorViewMut` of
    /// it can be created.
    pub(crate) fn is_read_only(&self) -> bool {
        // SAFETY: the object is a tensor and alive.
        unsafe { embedded::tensor::is_read_only(self.object.as_ptr()) }
    }

    /// The DLPack description, borrowed.
    pub fn dl_tensor(&self) -> &DLTensor {
        // SAFETY: the object is a tensor and lives as long as `self`.
        unsafe { embedded::body(self.object.as_ptr()) }
    }

    /// Dimensions, in elements.
    pub fn shape(&self) -> &[i64] {
        Layout::of(self.dl_tensor()).map_or(&[], |layout| layout.shape)
    }

    /// Strides, in elements; `None` means row major without gaps.
    pub fn strides(&self) -> Option<&[i64]> {
        Layout::of(self.dl_tensor()).ok().and_then(|layout| layout.strides)
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        Layout::of(self.dl_tensor()).map_or(0, |layout| layout.len)
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        DataType::from_raw(self.dl_tensor().dtype)
    }

    /// The device of the data.
    pub fn device(&self) -> Device {
        Device::from_raw(self.dl_tensor().device)
    }

    /// Returns whether the elements are stored in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        Layout::of(self.dl_tensor()).is_ok_and(|layout| layout.is_contiguous())
    }

    /// Returns read access to the elements as `T`.
    ///
    /// # Errors
    /// Returns a TypeError for another element type, and a ValueError for data on another device or
    /// misaligned data.
    #[track_caller]
    pub fn view<T: Element>(&self) -> Result<TensorView<'_, T>> {
        match TensorView::of(self.dl_tensor()) {
            Ok(view) => Ok(view),
            Err(mismatch) => Err(self.mismatch(mismatch)),
        }
    }

    /// Like [`Tensor::view`]; returns `None` instead of creating an error.
    #[doc(hidden)]
    pub fn find_view<T: Element>(&self) -> Option<TensorView<'_, T>> {
        TensorView::of(self.dl_tensor()).ok()
    }

    /// Returns write access to the elements as `T`. Requires the only reference to a tensor that
    /// Rust created, so that no other code can see a partial change.
    ///
    /// # Errors
    /// As for [`Tensor::view`], and a ValueError if the tensor is shared.
    pub fn view_mut<T: Element>(&mut self) -> Result<TensorViewMut<'_, T>> {
        self.check_not_shared()?;
        // SAFETY: the data belongs to this object alone, which has one reference, borrowed
        // exclusively.
        unsafe { TensorViewMut::of(self.dl_tensor()) }.map_err(|mismatch| self.mismatch(mismatch))
    }

    /// Returns an error unless Rust allocated the data and this is the only reference to it.
    #[track_caller]
    pub(super) fn check_not_shared(&self) -> Result<()> {
        // SAFETY: the object is alive.
        if self.exclusive && unsafe { embedded::is_unique(self.object.as_ptr()) } {
            return Ok(());
        }
        Err(Error::value_error(
            "the tensor is shared, so it cannot be written to in place; write to a new tensor, or take a TensorViewMut as the \
             parameter of a packed function",
        ))
    }

    #[cold]
    #[track_caller]
    fn mismatch(&self, mismatch: Mismatch) -> Error {
        let arg = self.to_arg();
        // SAFETY: `arg` borrows from `self`.
        mismatch.into_error("", &Self::TYPE, &unsafe { AnyView::from_raw(arg.as_raw()) })
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), exclusive: self.exclusive }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {})", self.dtype(), self.shape(), self.device())
    }
}

impl Schema for Tensor {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Tensor");
}

impl<'a> FromAny<'a> for Tensor {
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        if value.type_index() == type_index::DL_TENSOR_PTR {
            return Err(Mismatch::type_note(
                "expected Tensor, got a borrowed DLTensor*, which cannot be kept; pass an ffi.Tensor, or take a TensorView"
                    .to_owned(),
            ));
        }
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as a
        // tensor.
        unsafe {
            if (*object).type_index != type_index::TENSOR {
                return Err(Mismatch::TYPE);
            }
            embedded::inc_ref(object);
            Ok(Self::from_raw(object))
        }
    }
}

impl IntoAny for Tensor {
    fn into_any(self) -> Any {
        self.object.into_any()
    }

    #[inline]
    fn shown(&self) -> Shown<'_> {
        Shown::Lent(self.to_arg())
    }
}

impl ToArg for Tensor {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl From<Tensor> for Any {
    fn from(tensor: Tensor) -> Self {
        tensor.into_any()
    }
}
