//! Foreign tensors: `TVMFFITensorFromDLPack` and `TVMFFITensorFromDLPackVersioned`, and operations
//! on the tensors.
//!
//! The input describes the claims of a producer: any numbers, with arrays of the claimed length.
//! Elements that do not exist are not read.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance_mut};
use std::rc::Rc;

use kernpack::sys::abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, TVMFFIAny,
    TVMFFIObjectHandle, dlpack_flags, type_index,
};
use kernpack::{Any, IntoAny, Result, Tensor, sys::provider};

use crate::call::{call, check_status, must};

/// Imports the tensor that the input describes. The importer returns it exactly once, or the
/// producer keeps it if it is refused.
pub fn check(input: &[u8]) {
    let claim = Claim::read(input);
    match claim.versioned {
        true => check_import::<DLManagedTensorVersioned>(&claim),
        false => check_import::<DLManagedTensor>(&claim),
    }
}

/// The largest number of dimensions for which there are arrays.
const MOST_DIMENSIONS: i32 = 31;

/// The size of the buffer for a tensor's data.
const BUFFER: usize = 256;

/// The properties that a producer claims for its tensor, and the requirements of the importer.
struct Claim {
    versioned: bool,
    has_deleter: bool,
    has_buffer: bool,
    ndim: i32,
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    dtype: DLDataType,
    device: DLDevice,
    byte_offset: u64,
    data: u64,
    flags: u64,
    version: DLPackVersion,
    alignment: i32,
    contiguous: bool,
}

/// Numbers from bytes; zeros after the end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    fn array(&mut self, len: i32) -> Vec<i64> {
        (0..len).map(|_| i64::from_le_bytes(self.next())).collect()
    }
}

impl Claim {
    fn read(input: &[u8]) -> Self {
        let mut numbers = Numbers(input);
        let [bits] = numbers.next();
        let bit = |number: u8| bits & 1 << number != 0;
        let [dimensions] = numbers.next();
        let [code, lane_bits] = numbers.next();
        let lanes = u16::from_le_bytes(numbers.next());
        let device =
            DLDevice { device_type: i32::from_le_bytes(numbers.next()), device_id: i32::from_le_bytes(numbers.next()) };
        let byte_offset = u64::from_le_bytes(numbers.next());
        let data = u64::from_le_bytes(numbers.next());
        let flags = u64::from_le_bytes(numbers.next());
        let version =
            DLPackVersion { major: u32::from_le_bytes(numbers.next()), minor: u32::from_le_bytes(numbers.next()) };
        let alignment = i32::from_le_bytes(numbers.next());
        let ndim = match i32::from(dimensions) {
            ndim @ 0..=MOST_DIMENSIONS => ndim,
            _ => i32::from_le_bytes(numbers.next()),
        };
        // There are no arrays for more elements. A negative number must not be used as an index.
        let (has_shape, has_strides) = match ndim {
            ..=MOST_DIMENSIONS => (!bit(2), bit(3)),
            _ => (false, false),
        };
        Claim {
            versioned: bit(0),
            has_deleter: bit(1),
            has_buffer: bit(4),
            ndim,
            shape: has_shape.then(|| numbers.array(ndim)),
            strides: has_strides.then(|| numbers.array(ndim)),
            dtype: DLDataType { code, bits: lane_bits, lanes },
            device,
            byte_offset,
            data,
            flags,
            version,
            alignment,
            contiguous: bit(5),
        }
    }

    /// Returns whether an importer without requirements must accept the tensor.
    fn is_possible(&self) -> bool {
        let padded = self.versioned && self.flags & dlpack_flags::IS_SUBBYTE_TYPE_PADDED != 0;
        !padded && self.ndim >= 0 && (self.ndim == 0 || self.shape.is_some())
    }

    /// Returns whether the claimed elements are in its buffer, contiguously.
    fn is_in_buffer(&self) -> bool {
        let shape = self.shape.as_deref().unwrap_or_default();
        let bytes = (u128::from(self.dtype.bits) * u128::from(self.dtype.lanes)).div_ceil(8);
        let size = shape.iter().try_fold(bytes, |size, dimension| size.checked_mul(u128::try_from(*dimension).ok()?));
        self.has_buffer && size.is_some_and(|size| size + u128::from(self.byte_offset) <= BUFFER as u128)
    }
}

/// The owner of the producer's struct, with the number of times that it was returned.
struct Producer {
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    buffer: [u64; BUFFER / 8],
    returned: Rc<Cell<u32>>,
}

/// One of the two structs.
trait Managed: Sized {
    fn new(claim: &Claim, tensor: DLTensor, producer: *mut c_void) -> Self;
    fn producer(&self) -> *mut Producer;
    /// # Safety
    /// `from` is a valid tensor, whose ownership may be passed on.
    unsafe fn import(from: *mut Self, claim: &Claim, out: &mut TVMFFIObjectHandle) -> i32;

    /// The deleter: frees everything.
    unsafe extern "C" fn delete(this: *mut Self) {
        // SAFETY: both were boxes, and they are not used after the deleter.
        unsafe {
            let managed = Box::from_raw(this);
            let producer = Box::from_raw(managed.producer());
            producer.returned.set(producer.returned.get() + 1);
        }
    }
}

impl Managed for DLManagedTensor {
    fn new(claim: &Claim, dl_tensor: DLTensor, manager_ctx: *mut c_void) -> Self {
        DLManagedTensor { dl_tensor, manager_ctx, deleter: claim.has_deleter.then_some(Self::delete) }
    }

    fn producer(&self) -> *mut Producer {
        self.manager_ctx.cast()
    }

    unsafe fn import(from: *mut Self, claim: &Claim, out: &mut TVMFFIObjectHandle) -> i32 {
        // SAFETY: promised by the caller.
        unsafe { (provider::api().tensor_from_dlpack)(from, claim.alignment, claim.contiguous.into(), out) }
    }
}

impl Managed for DLManagedTensorVersioned {
    fn new(claim: &Claim, dl_tensor: DLTensor, manager_ctx: *mut c_void) -> Self {
        let deleter = claim.has_deleter.then_some(Self::delete as unsafe extern "C" fn(*mut Self));
        DLManagedTensorVersioned { version: claim.version, manager_ctx, deleter, flags: claim.flags, dl_tensor }
    }

    fn producer(&self) -> *mut Producer {
        self.manager_ctx.cast()
    }

    unsafe fn import(from: *mut Self, claim: &Claim, out: &mut TVMFFIObjectHandle) -> i32 {
        // SAFETY: promised by the caller.
        unsafe { (provider::api().tensor_from_dlpack_versioned)(from, claim.alignment, claim.contiguous.into(), out) }
    }
}

fn check_import<M: Managed>(claim: &Claim) {
    let returned = Rc::new(Cell::new(0));
    let mut producer = Box::new(Producer {
        shape: claim.shape.clone(),
        strides: claim.strides.clone(),
        buffer: [0x0102_0304_0506_0708; BUFFER / 8],
        returned: Rc::clone(&returned),
    });
    let pointer = |array: &mut Option<Vec<i64>>| array.as_mut().map_or(null_mut(), |array| array.as_mut_ptr());
    let tensor = DLTensor {
        data: match claim.has_buffer {
            true => producer.buffer.as_mut_ptr().cast(),
            false => without_provenance_mut(claim.data as usize),
        },
        device: claim.device,
        ndim: claim.ndim,
        dtype: claim.dtype,
        shape: pointer(&mut producer.shape),
        strides: pointer(&mut producer.strides),
        byte_offset: claim.byte_offset,
    };
    let managed = Box::into_raw(Box::new(M::new(claim, tensor, Box::into_raw(producer).cast())));
    let mut object = null_mut();
    // SAFETY: the struct is like a producer's, and its ownership is passed on.
    let status = unsafe { M::import(managed, claim, &mut object) };
    let imported = check_status("TVMFFITensorFromDLPack", status);
    assert!(imported.is_err() || claim.is_possible());
    assert!(imported.is_ok() || !claim.is_possible() || claim.alignment != 0 || claim.contiguous);
    let is_ours = match imported {
        Ok(()) => {
            // SAFETY: a new tensor, whose reference we own.
            let value = unsafe { Any::from_raw(TVMFFIAny::pointer(type_index::TENSOR, object.cast())) };
            check_tensor(claim, &tensor, &value);
            assert_eq!(returned.get(), 0);
            drop(value);
            assert_eq!(returned.get(), u32::from(claim.has_deleter));
            !claim.has_deleter
        }
        Err(_) => {
            assert_eq!(returned.get(), 0, "a tensor that was refused is still the producer's");
            true
        }
    };
    if is_ours {
        // SAFETY: it was not imported, or was not freed.
        unsafe { M::delete(managed) };
    }
}

/// Checks an imported tensor.
fn check_tensor(claim: &Claim, expected: &DLTensor, value: &Any) {
    let tensor: Tensor = value.to().expect("a tensor");
    let strides = match &claim.strides {
        Some(strides) => strides.clone(),
        None => row_major(claim.shape.as_deref().unwrap_or_default()),
    };
    check_description(claim, expected, &strides, tensor.dl_tensor());

    // The properties that Rust code reads.
    let _ = (tensor.shape().len(), tensor.len(), tensor.is_contiguous(), tensor.device(), format!("{tensor:?}"));
    check_view::<f32>(&tensor);
    check_view::<u8>(&tensor);
    check_view::<i64>(&tensor);

    // Exports the tensor to the next consumer.
    let exported = tensor.to_dlpack().expect("a tensor can be exported");
    let mut old = null_mut();
    let TVMFFIAny { payload, .. } = *value.as_view().as_raw();
    // SAFETY: the value is a tensor; the exported structs are freed by their deleters.
    unsafe {
        let given =
            check_status("TVMFFITensorToDLPack", (provider::api().tensor_to_dlpack)(payload.v_obj.cast(), &mut old));
        check_description(claim, expected, &strides, &(*exported).dl_tensor);
        let is_read_only = claim.versioned && claim.flags & dlpack_flags::READ_ONLY != 0;
        assert_eq!((*exported).flags & dlpack_flags::READ_ONLY != 0, is_read_only, "the flag is lost, or made up");
        // The unversioned form cannot express that memory is read-only.
        assert_eq!(given.is_err(), is_read_only, "{given:?}");
        if !is_read_only {
            check_description(claim, expected, &strides, &(*old).dl_tensor);
            (*old).deleter.expect("a deleter")(old);
        }
        (*exported).deleter.expect("a deleter")(exported);
    }

    // Views of the same elements.
    let view = unsafe_view(value, tensor.dl_tensor());
    match &view {
        Ok(view) => check_description(claim, expected, &strides, view.to::<Tensor>().expect("a tensor").dl_tensor()),
        Err(_) => assert!(tensor.dl_tensor().strides.is_null(), "only a scalar may come without strides"),
    }
    let without_strides = DLTensor { strides: null_mut(), ..*tensor.dl_tensor() };
    assert!(unsafe_view(value, &without_strides).is_err());

    // An unknown type of elements has no name.
    let _ = call("ffi.ReprPrint", &[value]);
    let (yes, no) = (true.into_any(), false.into_any());
    let same = must("ffi.StructuralEqual", &[value, value, &no, &yes]);
    assert!(same.to::<bool>().expect("a flag"));
    must("ffi.StructuralHash", &[value, &no, &yes]);
    if claim.is_in_buffer() {
        // Operations that read the elements; for a device whose memory cannot be read, or gaps
        // between the elements, they return an error.
        let _ = call("ffi.StructuralHash", &[value, &no, &no]);
        if let Ok(view) = &view {
            let _ = call("ffi.StructuralEqual", &[value, view, &no, &no]);
        }
    }
}

/// Checks the guarantees of a view's type.
fn check_view<T: kernpack::Element>(tensor: &Tensor) {
    let Ok(view) = tensor.view::<T>() else { return };
    let bytes = view.len().checked_mul(size_of::<T>()).expect("no more than memory");
    assert!(isize::try_from(bytes).is_ok());
    assert!(tensor.shape().iter().all(|dimension| *dimension >= 0));
}

/// A tensor over the elements of another one.
fn unsafe_view(source: &Any, prototype: &DLTensor) -> Result<Any> {
    let mut out = null_mut();
    // SAFETY: the source is a tensor; the description's arrays have the claimed length.
    unsafe {
        let source = source.as_view().as_raw().payload.v_obj;
        let status = (provider::api().tensor_create_unsafe_view)(source.cast(), prototype, &mut out);
        check_status("TVMFFITensorCreateUnsafeView", status)?;
        Ok(Any::from_raw(TVMFFIAny::pointer(type_index::TENSOR, out.cast())))
    }
}

/// Checks that the tensor agrees with the producer's claims.
fn check_description(claim: &Claim, expected: &DLTensor, strides: &[i64], tensor: &DLTensor) {
    assert_eq!(tensor.data, expected.data);
    assert_eq!((tensor.device, tensor.dtype), (claim.device, claim.dtype));
    assert_eq!((tensor.ndim, tensor.byte_offset), (claim.ndim, claim.byte_offset));
    if claim.ndim > 0 {
        let ndim = claim.ndim as usize;
        // SAFETY: a tensor has arrays of as many elements as dimensions.
        let arrays = unsafe { [tensor.shape, tensor.strides].map(|array| core::slice::from_raw_parts(array, ndim)) };
        assert_eq!(arrays, [claim.shape.as_deref().unwrap_or_default(), strides]);
    }
}

/// Contiguous strides. Products that are too large wrap around, as they do in C++.
fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = shape[axis].wrapping_mul(strides[axis]);
    }
    strides
}
