//! Tensor cells: a `DLTensor` after the header, followed by its owner, and by shape and strides at
//! the end.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, TVMFFIObject,
    device_type, dlpack_flags, type_index,
};

use super::failure::Failure;
use super::{ObjectCell, body, dec_ref, inc_ref, new_object_with_tail};

/// The version of DLPack that exported tensors follow.
const DLPACK_VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// A tensor and the owner of its data.
#[repr(C)]
struct TensorBody<Owner> {
    tensor: DLTensor,
    owner: Owner,
}

/// Creates a tensor over `data`, which `owner` keeps alive until the last reference is released.
/// Shape and strides (in elements; `None` is row-major) are copied into the object. The caller owns
/// the reference.
///
/// # Errors
/// `ValueError` when shape and strides differ in length or there are more than `i32::MAX`
/// dimensions.
pub fn new_tensor<Owner>(
    data: *mut c_void,
    device: DLDevice,
    dtype: DLDataType,
    shape: &[i64],
    strides: Option<&[i64]>,
    byte_offset: u64,
    owner: Owner,
) -> Result<*mut TVMFFIObject, Failure> {
    let Ok(ndim) = i32::try_from(shape.len()) else {
        return Err(Failure::value("a tensor has at most 2147483647 dimensions"));
    };
    if let Some(strides) = strides
        && strides.len() != shape.len()
    {
        return Err(Failure::value(format_args!(
            "a shape of {ndim} dimensions does not go with {} strides",
            strides.len()
        )));
    }
    let tensor = DLTensor {
        data,
        device,
        ndim,
        dtype,
        shape: core::ptr::null_mut(),
        strides: core::ptr::null_mut(),
        byte_offset,
    };
    let object = new_object_with_tail(type_index::TENSOR, TensorBody { tensor, owner }, 2 * size_of_val(shape));
    // SAFETY: the object is new and ours; its tail has room for shape and strides and is aligned
    // to 8.
    unsafe {
        let cell = object.cast::<ObjectCell<TensorBody<Owner>>>();
        let tail = cell.add(1).cast::<i64>();
        tail.copy_from_nonoverlapping(shape.as_ptr(), shape.len());
        let tail_strides = tail.add(shape.len());
        match strides {
            Some(strides) => tail_strides.copy_from_nonoverlapping(strides.as_ptr(), strides.len()),
            None => write_row_major_strides(shape, tail_strides),
        }
        let tensor = &raw mut (*cell).body.tensor;
        (*tensor).shape = tail;
        (*tensor).strides = tail_strides;
    }
    Ok(object)
}

unsafe fn write_row_major_strides(shape: &[i64], strides: *mut i64) {
    let mut stride = 1_i64;
    for (index, dimension) in shape.iter().enumerate().rev() {
        // SAFETY: the caller has room for as many strides as dimensions.
        unsafe { strides.add(index).write(stride) };
        stride = stride.wrapping_mul(*dimension);
    }
}

/// The `DLTensor` of a tensor object.
///
/// # Safety
/// `tensor` is a live tensor object and stays alive for `'a`.
pub unsafe fn dl_tensor<'a>(tensor: *mut TVMFFIObject) -> &'a DLTensor {
    // SAFETY: promised by the caller; every tensor begins with it.
    unsafe { body(tensor) }
}

/// The value, for a read-only tensor, of the header word that the ABI leaves unused; it is 0 in all
/// other tensors, whichever implementation created them.
const READ_ONLY: u32 = 1 << 31;

fn unused_word<'a>(tensor: *mut TVMFFIObject) -> &'a AtomicU32 {
    // SAFETY: the callers pass a live object; this word of objects is only accessed atomically.
    unsafe { AtomicU32::from_ptr(&raw mut (*tensor).padding) }
}

/// Makes a tensor read-only: it is exported as such, and its views are read-only, too.
///
/// # Safety
/// `tensor` is a live tensor object.
#[doc(hidden)]
#[inline]
pub unsafe fn set_read_only(tensor: *mut TVMFFIObject) {
    unused_word(tensor).store(READ_ONLY, Ordering::Relaxed);
}

/// Returns true if the memory of a tensor must not be written to.
///
/// # Safety
/// `tensor` is a live tensor object.
#[doc(hidden)]
#[inline]
#[must_use]
pub unsafe fn is_read_only(tensor: *mut TVMFFIObject) -> bool {
    unused_word(tensor).load(Ordering::Relaxed) == READ_ONLY
}

/// A struct in which DLPack passes tensors: the two versions differ only in their layout.
trait Managed {
    fn tensor(&self) -> &DLTensor;
    fn flags(&self) -> u64;
    /// # Safety
    /// `this` is not used afterwards.
    unsafe fn give_back(this: *mut Self);
}

impl Managed for DLManagedTensor {
    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn flags(&self) -> u64 {
        0
    }

    unsafe fn give_back(this: *mut Self) {
        // SAFETY: the producer's deleter is called once, on the producer's struct.
        unsafe {
            if let Some(deleter) = (*this).deleter {
                deleter(this);
            }
        }
    }
}

impl Managed for DLManagedTensorVersioned {
    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    unsafe fn give_back(this: *mut Self) {
        // SAFETY: the producer's deleter is called once, on the producer's struct.
        unsafe {
            if let Some(deleter) = (*this).deleter {
                deleter(this);
            }
        }
    }
}

/// A tensor that a DLPack producer owns.
struct Imported<M: Managed>(*mut M);

impl<M: Managed> Drop for Imported<M> {
    fn drop(&mut self) {
        // SAFETY: the import took the tensor over; this is the only place that gives it back.
        unsafe { M::give_back(self.0) }
    }
}

unsafe fn import<M: Managed>(
    from: *mut M,
    alignment: i32,
    require_contiguous: bool,
) -> Result<*mut TVMFFIObject, Failure> {
    if from.is_null() {
        return Err(Failure::value("FromDLPack: the tensor is NULL"));
    }
    // SAFETY: the caller passes a valid DLPack tensor.
    let (managed, shape) = unsafe {
        let managed = &*from;
        (managed, check_import(managed.tensor(), managed.flags(), alignment, require_contiguous)?)
    };
    let tensor = managed.tensor();
    let missing_strides = if tensor.strides.is_null() { shape.len() } else { 0 };
    let imported = TensorBody { tensor: *tensor, owner: Imported(from) };
    let object = new_object_with_tail(type_index::TENSOR, imported, missing_strides * size_of::<i64>());
    if managed.flags() & dlpack_flags::READ_ONLY != 0 {
        // SAFETY: the object is new.
        unsafe { set_read_only(object) };
    }
    if missing_strides > 0 {
        // SAFETY: the object is new and ours; its tail has room for the strides and is aligned
        // to 8.
        unsafe {
            let cell = object.cast::<ObjectCell<TensorBody<Imported<M>>>>();
            let strides = cell.add(1).cast::<i64>();
            write_row_major_strides(shape, strides);
            (&raw mut (*cell).body.tensor.strides).write(strides);
        }
    }
    Ok(object)
}

/// Checks that a tensor can be imported, and returns its shape. Not generic, so that a library
/// contains it once.
///
/// # Safety
/// The tensor is valid according to DLPack.
#[inline(never)]
unsafe fn check_import(
    tensor: &DLTensor,
    flags: u64,
    alignment: i32,
    require_contiguous: bool,
) -> Result<&[i64], Failure> {
    // SAFETY: promised by the caller.
    let shape = unsafe { shape_of(tensor, "FromDLPack")? };
    // A negative number becomes a huge one, as in C++.
    let alignment = alignment as i64 as u64;
    if alignment != 0 && !is_aligned(tensor, alignment) {
        return Err(Failure::runtime(format_args!("FromDLPack: Data is not aligned to {alignment} bytes.")));
    }
    // SAFETY: as above.
    if require_contiguous && !unsafe { is_contiguous(tensor) } {
        return Err(Failure::runtime("FromDLPack: Tensor is not contiguous."));
    }
    if flags & dlpack_flags::IS_SUBBYTE_TYPE_PADDED != 0 {
        return Err(Failure::runtime("Subbyte type padded is not yet supported"));
    }
    Ok(shape)
}

/// The shape of a `DLTensor` from foreign code.
unsafe fn shape_of<'a>(tensor: &'a DLTensor, function: &str) -> Result<&'a [i64], Failure> {
    match usize::try_from(tensor.ndim) {
        Ok(0) => Ok(&[]),
        Ok(_) if tensor.shape.is_null() => {
            Err(Failure::value(format_args!("{function}: a tensor of {} dimensions has no shape", tensor.ndim)))
        }
        // SAFETY: the caller passes a valid tensor, whose shape has `ndim` elements.
        Ok(ndim) => Ok(unsafe { core::slice::from_raw_parts(tensor.shape, ndim) }),
        Err(_) => Err(Failure::value(format_args!("{function}: a tensor cannot have {} dimensions", tensor.ndim))),
    }
}

/// Takes over a tensor of the DLPack version before 1.0. On success its deleter is called when the
/// new object is destroyed; on failure the caller keeps it.
///
/// # Errors
/// `RuntimeError` if alignment (0 for any) or contiguity is not as required, `ValueError` for an
/// invalid tensor.
///
/// # Safety
/// `from` is NULL or a valid DLPack tensor.
pub unsafe fn from_dlpack(
    from: *mut DLManagedTensor,
    alignment: i32,
    require_contiguous: bool,
) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    unsafe { import(from, alignment, require_contiguous) }
}

/// Takes over a tensor of DLPack 1.0 or later; see [`from_dlpack`].
///
/// # Errors
/// As [`from_dlpack`], and `RuntimeError` for padded elements of less than a byte.
///
/// # Safety
/// As [`from_dlpack`].
pub unsafe fn from_dlpack_versioned(
    from: *mut DLManagedTensorVersioned,
    alignment: i32,
    require_contiguous: bool,
) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    unsafe { import(from, alignment, require_contiguous) }
}

/// Exports a tensor in the form before DLPack 1.0, which cannot express that a tensor is read-only.
/// The result holds a reference and is freed by its deleter.
///
/// # Safety
/// `tensor` is a live tensor object.
pub unsafe fn to_dlpack(tensor: *mut TVMFFIObject) -> *mut DLManagedTensor {
    unsafe extern "C" fn delete(this: *mut DLManagedTensor) {
        // SAFETY: the consumer calls this once, on the struct that was made below.
        unsafe {
            let exported = Box::from_raw(this);
            dec_ref(exported.manager_ctx.cast());
        }
    }
    // SAFETY: promised by the caller.
    unsafe {
        inc_ref(tensor);
        let exported =
            DLManagedTensor { dl_tensor: *dl_tensor(tensor), manager_ctx: tensor.cast(), deleter: Some(delete) };
        Box::into_raw(Box::new(exported))
    }
}

/// Exports a tensor in the form of DLPack 1.0 and later; see [`to_dlpack`].
///
/// # Safety
/// `tensor` is a live tensor object.
pub unsafe fn to_dlpack_versioned(tensor: *mut TVMFFIObject) -> *mut DLManagedTensorVersioned {
    unsafe extern "C" fn delete(this: *mut DLManagedTensorVersioned) {
        // SAFETY: the consumer calls this once, on the struct that was made below.
        unsafe {
            let exported = Box::from_raw(this);
            dec_ref(exported.manager_ctx.cast());
        }
    }
    // SAFETY: promised by the caller.
    unsafe {
        inc_ref(tensor);
        let exported = DLManagedTensorVersioned {
            version: DLPACK_VERSION,
            manager_ctx: tensor.cast(),
            deleter: Some(delete),
            flags: if is_read_only(tensor) { dlpack_flags::READ_ONLY } else { 0 },
            dl_tensor: *dl_tensor(tensor),
        };
        Box::into_raw(Box::new(exported))
    }
}

/// The reference that a tensor view holds.
struct Source(*mut TVMFFIObject);

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the view owns this reference.
        unsafe { dec_ref(self.0) }
    }
}

/// Creates a tensor with the data, shape and strides of `prototype` (shape and strides are copied),
/// which keeps `source` alive. Whether it stays within the source's data is not checked.
///
/// # Errors
/// `InternalError` without strides, `ValueError` for an invalid shape.
///
/// # Safety
/// `source` is a live tensor and `prototype` a valid tensor.
pub unsafe fn unsafe_view(source: *mut TVMFFIObject, prototype: &DLTensor) -> Result<*mut TVMFFIObject, Failure> {
    let DLTensor { data, device, dtype, byte_offset, .. } = *prototype;
    // SAFETY: promised by the caller.
    unsafe {
        let shape = shape_of(prototype, "TensorCreateUnsafeView")?;
        if prototype.strides.is_null() {
            return Err(Failure::internal("Check not null: prototype.strides "));
        }
        let strides = core::slice::from_raw_parts(prototype.strides, shape.len());
        inc_ref(source);
        let view = new_tensor(data, device, dtype, shape, Some(strides), byte_offset, Source(source))?;
        if is_read_only(source) {
            set_read_only(view);
        }
        Ok(view)
    }
}

/// Returns true if the elements are contiguous in row-major order.
///
/// # Safety
/// `tensor` is valid.
pub unsafe fn is_contiguous(tensor: &DLTensor) -> bool {
    let ndim = usize::try_from(tensor.ndim).unwrap_or(0);
    if tensor.strides.is_null() || ndim == 0 {
        return true;
    }
    // SAFETY: promised by the caller.
    let (shape, strides) =
        unsafe { (core::slice::from_raw_parts(tensor.shape, ndim), core::slice::from_raw_parts(tensor.strides, ndim)) };
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1_i64;
    for (dimension, stride) in shape.iter().zip(strides).rev() {
        // The stride of a dimension with one element is irrelevant.
        if *dimension != 1 {
            if *stride != expected {
                return false;
            }
            expected = expected.wrapping_mul(*dimension);
        }
    }
    true
}

/// Returns true if the first element is aligned to `alignment` bytes, as far as its address shows
/// it.
fn is_aligned(tensor: &DLTensor, alignment: u64) -> bool {
    let kind = tensor.device.device_type;
    let direct = kind <= device_type::CUDA_HOST
        || matches!(kind, device_type::CUDA_MANAGED | device_type::ROCM | device_type::ROCM_HOST);
    let base = if direct { tensor.data.addr() as u64 } else { 0 };
    base.wrapping_add(tensor.byte_offset).is_multiple_of(alignment)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::abi::dtype_code;
    use crate::cells::strong_count;

    const CPU: DLDevice = DLDevice { device_type: device_type::CPU, device_id: 0 };
    const F32: DLDataType = DLDataType { code: dtype_code::FLOAT, bits: 32, lanes: 1 };

    unsafe fn lists(tensor: *mut TVMFFIObject) -> (Vec<i64>, Vec<i64>) {
        // SAFETY: the tests pass live tensors.
        unsafe {
            let tensor = dl_tensor(tensor);
            let list = |data: *mut i64| core::slice::from_raw_parts(data, tensor.ndim as usize).to_vec();
            (list(tensor.shape), list(tensor.strides))
        }
    }

    #[test]
    fn owner_lives_as_long_as_the_tensor() {
        let owner = Rc::new(vec![0.0_f32; 24]);
        let data = owner.as_ptr().cast_mut().cast();
        let tensor = new_tensor(data, CPU, F32, &[2, 3, 4], None, 0, owner.clone()).unwrap();
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            assert_eq!(lists(tensor), (vec![2, 3, 4], vec![12, 4, 1]));
            let exported = to_dlpack_versioned(tensor);
            assert_eq!(((*exported).version, (*exported).flags), (DLPACK_VERSION, 0));
            let again = from_dlpack_versioned(exported, 4, true).unwrap();
            let view = unsafe_view(again, dl_tensor(again)).unwrap();
            assert_eq!(strong_count(again), 2);
            dec_ref(again);
            dec_ref(tensor);
            assert_eq!(Rc::strong_count(&owner), 2);
            assert_eq!(lists(view).1, [12, 4, 1]);
            dec_ref(view);
            assert_eq!(Rc::strong_count(&owner), 1);
        }
        assert!(new_tensor(data, CPU, F32, &[2], Some(&[]), 0, ()).is_err());
    }

    #[test]
    fn read_only_tensors_stay_so() {
        let mut values = [0.0_f32; 4];
        let tensor = new_tensor(values.as_mut_ptr().cast(), CPU, F32, &[4], None, 0, ()).unwrap();
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            assert!(!is_read_only(tensor));
            set_read_only(tensor);
            let exported = to_dlpack_versioned(tensor);
            assert_eq!((*exported).flags, dlpack_flags::READ_ONLY);
            let again = from_dlpack_versioned(exported, 0, false).unwrap();
            let view = unsafe_view(again, dl_tensor(again)).unwrap();
            assert!(is_read_only(again) && is_read_only(view));
            for tensor in [view, again, tensor] {
                dec_ref(tensor);
            }
        }
    }

    #[test]
    fn imports_are_checked_and_leave_the_tensor_to_the_caller_on_failure() {
        let mut values = [0.0_f32; 8];
        let mut shape = [2_i64, 2];
        let mut strides = [4_i64, 1];
        let mut managed = DLManagedTensor {
            dl_tensor: DLTensor {
                data: values.as_mut_ptr().cast(),
                device: CPU,
                ndim: 2,
                dtype: F32,
                shape: shape.as_mut_ptr(),
                strides: strides.as_mut_ptr(),
                byte_offset: 4,
            },
            manager_ctx: core::ptr::null_mut(),
            deleter: None,
        };
        let mut check = |change: &dyn Fn(&mut DLTensor), alignment, contiguous, message: &str| {
            let old = managed.dl_tensor;
            change(&mut managed.dl_tensor);
            // SAFETY: the tensor is valid or obviously wrong.
            let imported = unsafe { from_dlpack(&raw mut managed, alignment, contiguous) };
            managed.dl_tensor = old;
            match imported {
                Ok(tensor) => {
                    assert_eq!(message, "");
                    // SAFETY: the test owns the reference.
                    unsafe { dec_ref(tensor) };
                }
                Err(failure) => assert_eq!(failure.message(), message),
            }
        };
        check(&|_| {}, 0, false, "");
        check(&|_| {}, 4, false, "");
        check(&|_| {}, 4096, false, "FromDLPack: Data is not aligned to 4096 bytes.");
        check(&|_| {}, 0, true, "FromDLPack: Tensor is not contiguous.");
        check(&|t| t.strides = core::ptr::null_mut(), 0, true, "");
        check(&|t| t.shape = core::ptr::null_mut(), 0, false, "FromDLPack: a tensor of 2 dimensions has no shape");
        check(&|t| t.ndim = -1, 0, false, "FromDLPack: a tensor cannot have -1 dimensions");
        check(&|t| t.ndim = 0, 0, true, "");
        check(&|_| {}, -8, false, "FromDLPack: Data is not aligned to 18446744073709551608 bytes.");
    }
}
