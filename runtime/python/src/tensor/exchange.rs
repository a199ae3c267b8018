//! Tensors of PyTorch, through DLPack's exchange interface: a table of C functions behind a class
//! of arrays, `__dlpack_c_exchange_api__`, which needs no capsule and no call of Python code.

use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;

use kernpack_core::abi::{DLManagedTensorVersioned, DLTensor, TVMFFIAny, TVMFFIObject, dlpack_flags, dtype_code};
use kernpack_core::{Device, Error, embedded, provider};

use super::exchange_table::{Api, Known, ManagedOf, known};
use super::lend::LentTensor;
use super::{managed, stored};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::interpreter::with_lock;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::signature::refused::{self, Refused};
use crate::signature::wanted::Wanted;

/// A tensor of another framework, whose memory is not freed as long as this value lives.
pub(crate) struct Exchanged {
    managed: ptr::NonNull<DLManagedTensorVersioned>,
    /// A copy of the tensor's description. Python code may change the description of an array that
    /// it can access.
    described: Option<Box<LentTensor>>,
    /// The storage of a PyTorch tensor.
    storage: Option<Owned>,
}

impl Drop for Exchanged {
    fn drop(&mut self) {
        // SAFETY: this value owns the tensor, and deletes it once.
        unsafe {
            if let Some(delete) = self.managed.as_ref().deleter {
                delete(self.managed.as_ptr());
            }
        }
    }
}

impl Exchanged {
    /// Returns a view of the tensor that is valid as long as this value.
    pub(crate) fn view(&self) -> TVMFFIAny {
        self.described.as_ref().map_or(TVMFFIAny::NONE, |described| described.view())
    }

    fn is_read_only(&self) -> bool {
        // SAFETY: this value owns the tensor.
        unsafe { self.managed.as_ref().flags & dlpack_flags::READ_ONLY != 0 }
    }

    /// Converts this into a tensor of the library, which takes ownership.
    pub(crate) fn into_tensor(self, writes: bool) -> Result<*mut TVMFFIObject, Refused> {
        // SAFETY: the tensor is this value's; when it was taken over it is not given back here.
        // Shape and strides are copied before code of Python can run.
        unsafe {
            let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } = self.managed.as_ref().dl_tensor;
            let is_padded = self.managed.as_ref().flags & dlpack_flags::IS_SUBBYTE_TYPE_PADDED != 0;
            let Some(ndim) = usize::try_from(ndim).ok().filter(|_| self.storage.is_some() && !is_padded) else {
                let tensor = managed::imported(self.managed.as_ptr(), writes)?;
                core::mem::forget(self);
                return Ok(tensor);
            };
            let is_read_only = self.is_read_only();
            if writes && is_read_only {
                return Err(refused::read_only());
            }
            let extents = |start: *mut i64| {
                if start.is_null() || ndim == 0 { &[][..] } else { core::slice::from_raw_parts(start, ndim) }
            };
            let (shape, strides) = (extents(shape), (!strides.is_null()).then(|| extents(strides)));
            let owner = Kept(ManuallyDrop::new(self));
            let tensor = embedded::tensor::new_tensor(data, device, dtype, shape, strides, byte_offset, owner)?;
            if is_read_only {
                embedded::tensor::set_read_only(tensor);
            }
            Ok(tensor)
        }
    }
}

/// The Python object that a kept tensor borrows from. It is released with the interpreter's lock
/// held.
struct Kept(ManuallyDrop<Exchanged>);

impl Drop for Kept {
    fn drop(&mut self) {
        // After the interpreter has shut down, its objects no longer exist.
        // SAFETY: dropped once, and not used afterwards.
        with_lock(|_| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// The tensor behind an array of a class with the interface, for the time of a call. `None`: the
/// array has to go another way, as those in a device's memory do, whose stream has to be waited
/// for.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn lend(py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<Option<Exchanged>, Refused> {
    // SAFETY: promised by the caller; the description is that of a live tensor.
    unsafe {
        let Some(mut lent) = managed(py, object)? else { return Ok(None) };
        if lent.managed.as_ref().flags & dlpack_flags::IS_SUBBYTE_TYPE_PADDED != 0 {
            return Ok(None);
        }
        if wanted.writes() && lent.is_read_only() {
            return Err(refused::read_only());
        }
        lent.described = LentTensor::copied(&lent.managed.as_ref().dl_tensor);
        Ok(lent.described.is_some().then_some(lent))
    }
}

/// Returns the tensor of an array whose class has the interface, and `None` in the same cases as
/// [`lend`].
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn managed(py: Py, object: *mut PyObject) -> Result<Option<Exchanged>, Refused> {
    // SAFETY: promised by the caller; the function gives a tensor when it succeeds.
    unsafe {
        let Some(known) = foreign(py, object)? else { return Ok(None) };
        let Some(managed_of) = known.api.managed_of else { return Ok(None) };
        // The address of the elements before Python code can run, on this thread or on others.
        let before = described(py, object, known)?;
        if let Some((before, _)) = &before {
            if !Device::from_raw(before.device).is_host_accessible() {
                return Ok(None);
            }
            check_is_plain(py, object, known, before)?;
        }
        // Obtained before the tensor is described for the call: its shape may change, too.
        let storage = storage(py, object, known)?;
        let mut lent = taken(py, object, managed_of)?;
        lent.storage = storage;
        let managed = lent.managed;
        if before.as_ref().is_some_and(|(before, _)| before.data != managed.as_ref().dl_tensor.data) {
            return Err(stored::moved());
        }
        let device = Device::from_raw(managed.as_ref().dl_tensor.device);
        Ok(device.is_host_accessible().then_some(lent))
    }
}

/// Returns the class of an array, if it has the interface and is not the library's own class.
///
/// # Safety
/// `object` is alive.
unsafe fn foreign(py: Py, object: *mut PyObject) -> PyResult<Option<&'static Known>> {
    // SAFETY: promised by the caller.
    unsafe {
        let class = py.type_of(object);
        if class == State::get(py).tensor { Ok(None) } else { known(py, class) }
    }
}

/// Returns the storage of a PyTorch tensor; `None` for other arrays.
///
/// # Safety
/// `object` is alive, and of the class.
unsafe fn storage(py: Py, object: *mut PyObject, known: &Known) -> PyResult<Option<Owned>> {
    if known.storage.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe { call(py, known.storage, object) }.map(Some)
}

/// Returns the tensor that the interface of a class exports.
///
/// # Safety
/// `object` is alive, and of the class.
unsafe fn taken(py: Py, object: *mut PyObject, managed_of: ManagedOf) -> PyResult<Exchanged> {
    let mut managed = ptr::null_mut();
    // SAFETY: promised by the caller; the function gives a tensor when it succeeds.
    unsafe {
        if managed_of(object, &mut managed) != 0 {
            return Err(Raised);
        }
        let Some(managed) = ptr::NonNull::new(managed) else {
            let class = py.class_name(object);
            let text = format!("the exchange interface of {class} gave no tensor");
            return Err(py.raise(py.PyExc_BufferError(), &text));
        };
        Ok(Exchanged { managed, described: None, storage: None })
    }
}

/// The description of a tensor of PyTorch, and what lends it if it is not the tensor itself. It is
/// valid until code of Python runs. `None` for others.
///
/// # Safety
/// `object` is alive, and of the class.
unsafe fn described(py: Py, object: *mut PyObject, known: &Known) -> PyResult<Option<(DLTensor, Option<Exchanged>)>> {
    if known.storage.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller; the functions fill the description when they succeed.
    unsafe {
        if let Some(borrow) = known.api.borrow {
            let mut tensor = MaybeUninit::<DLTensor>::zeroed();
            return match borrow(object, tensor.as_mut_ptr()) {
                0 => Ok(Some((tensor.assume_init(), None))),
                _ => Err(Raised),
            };
        }
        let Some(managed_of) = known.api.managed_of else { return Ok(None) };
        let lent = taken(py, object, managed_of)?;
        Ok(Some((lent.managed.as_ref().dl_tensor, Some(lent))))
    }
}

/// Checks that the elements of a tensor are those in memory. PyTorch conjugates lazily: `t.conj()`
/// is `t` with the conjugate bit, and `t.conj().imag` has the negative bit. The exchange interface
/// reports neither.
///
/// # Safety
/// `object` is alive, and of the class; the description is that of its tensor.
unsafe fn check_is_plain(py: Py, object: *mut PyObject, known: &Known, tensor: &DLTensor) -> Result<(), Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let is_complex = tensor.dtype.code == dtype_code::COMPLEX;
        if is_complex && is_set(py, known.is_conjugate, object)? {
            return Err(stored::bit_is_set("conjugate"));
        }
        // The negative bit is that of views of imaginary parts. Their strides are even, except
        // along an axis of one element. Only `as_strided` makes others, with numbers of the caller.
        let may_be_negative = is_complex || (tensor.dtype.code == dtype_code::FLOAT && !has_odd_stride(tensor));
        if may_be_negative && is_set(py, known.is_negative, object)? {
            return Err(stored::bit_is_set("negative"));
        }
        Ok(())
    }
}

/// Returns true if an axis of more than one element has an odd stride.
///
/// # Safety
/// The description is valid.
unsafe fn has_odd_stride(tensor: &DLTensor) -> bool {
    if tensor.shape.is_null() || tensor.strides.is_null() {
        return false;
    }
    let axes = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: promised by the caller: there are as many extents and strides as axes.
    unsafe { (0..axes).any(|axis| *tensor.shape.add(axis) > 1 && *tensor.strides.add(axis) % 2 != 0) }
}

/// Returns true if a method of an array returns `True`. NULL represents a missing method.
///
/// # Safety
/// The array is alive.
unsafe fn is_set(py: Py, method: *mut PyObject, object: *mut PyObject) -> PyResult<bool> {
    if method.is_null() {
        return Ok(false);
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { call(py, method, object)?.as_ptr() == py._Py_TrueStruct() })
}

/// Calls a method of an array that takes only the array.
///
/// # Safety
/// Both are alive.
unsafe fn call(py: Py, method: *mut PyObject, object: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        match py.PyObject_Vectorcall() {
            Some(call) => Owned::take(py, call(method, &object, 1, ptr::null_mut())),
            None => py.call(method, [Owned::share(py, object)]),
        }
    }
}

/// While it lives, the stream that an array's framework works in is the library's current one on
/// its device.
pub(crate) struct CurrentStream {
    device: Device,
    before: *mut c_void,
}

impl Drop for CurrentStream {
    fn drop(&mut self) {
        // SAFETY: the stream was current before, so it is alive; what it replaces is not needed. No
        // provider refuses: it stores three words.
        unsafe {
            let (kind, index) = (self.device.device_type(), self.device.index());
            (provider::api().env_set_stream)(kind, index, self.before, ptr::null_mut());
        }
    }
}

/// Makes the current stream of the framework that an array in a device's memory is from the
/// library's own, so that kernels are put behind the framework's work, and the framework's later
/// work behind the kernels. `None` for other objects.
///
/// # Safety
/// `object` is alive for the call.
pub(crate) unsafe fn enter_stream(py: Py, object: *mut PyObject) -> PyResult<Option<CurrentStream>> {
    // SAFETY: promised by the caller; the functions fill their results when they succeed. A
    // framework's current stream outlives the call.
    unsafe {
        let Some(known) = foreign(py, object)? else { return Ok(None) };
        let Api { borrow: Some(borrow), current_stream: Some(current_stream), .. } = known.api else {
            return Ok(None);
        };
        let mut tensor = MaybeUninit::<DLTensor>::zeroed();
        if borrow(object, tensor.as_mut_ptr()) != 0 {
            return Err(Raised);
        }
        let device = Device::from_raw(tensor.assume_init().device);
        if device.is_host_accessible() {
            return Ok(None);
        }
        let (mut stream, mut before) = (ptr::null_mut(), ptr::null_mut());
        if current_stream(device.device_type(), device.index(), &mut stream) != 0 {
            return Err(Raised);
        }
        let status = (provider::api().env_set_stream)(device.device_type(), device.index(), stream, &mut before);
        Error::check(status).map_err(|error| exception::raise(py, &error))?;
        Ok(Some(CurrentStream { device, before }))
    }
}
