//! The storage of tensors like PyTorch's that are given as capsules. A capsule holds the tensor,
//! and code of Python may give this another storage at any time (`t.data = other`, `t.set_()`): the
//! memory is that of the storage, so the storage is held.

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{DLTensor, TVMFFIObject};
use kernpack_core::embedded;

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::interpreter::with_lock;
use crate::cpython::object::{Owned, PyResult};
use crate::signature::refused::Refused;

/// The method that returns a tensor's storage. PyTorch has it since 2.0.
const STORAGE: &CStr = c"untyped_storage";
/// The method that tells whether the elements are the negative values of those in memory.
const IS_NEGATIVE: &CStr = c"is_neg";

/// The first classes of arrays that were found to have neither method, such as those of JAX and
/// CuPy. They are never released.
static WITHOUT: [AtomicPtr<PyObject>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// The storage of a tensor, obtained before the capsule is requested.
pub(crate) struct Stored {
    storage: Owned,
    /// The address of the elements at that time.
    start: Option<i64>,
}

impl Stored {
    /// Returns the storage of an array whose class has the method `untyped_storage`; `None` for
    /// other arrays. The tensors of PyTorch 1 are such arrays: their storage is not held (see the
    /// page "Import from Python"). Their capsules ignore the negative bit, so it is checked, too.
    ///
    /// # Errors
    /// A tensor whose elements differ from its memory.
    ///
    /// # Safety
    /// `object` is alive.
    pub(crate) unsafe fn of(py: Py, object: *mut PyObject) -> Result<Option<Self>, Refused> {
        // SAFETY: promised by the caller.
        unsafe {
            if !is_like_pytorch(py, py.class_of(object))? {
                return Ok(None);
            }
            let start = start(py, object)?;
            let storage = ask(py, object, STORAGE)?;
            for (bit, of) in [("conjugate", c"is_conj"), ("negative", IS_NEGATIVE)] {
                if ask(py, object, of)?.is_some_and(|is_set| is_set.as_ptr() == py._Py_TrueStruct()) {
                    return Err(bit_is_set(bit));
                }
            }
            Ok(storage.map(|storage| Self { storage, start }))
        }
    }

    /// A tensor over the memory of one that the array gave, which holds both this one and the
    /// storage. The reference is taken over.
    ///
    /// # Safety
    /// `object` is alive, and `tensor` a reference to a tensor.
    pub(crate) unsafe fn hold(
        self,
        py: Py,
        object: *mut PyObject,
        tensor: *mut TVMFFIObject,
    ) -> Result<*mut TVMFFIObject, Refused> {
        let Self { storage, start: before } = self;
        // SAFETY: promised by the caller; the owner has the reference, and the description of the
        // tensor lives as long as that. Its shape and strides may be those of `object`, so they are
        // copied before code of Python can run.
        unsafe {
            let kept = Owned::share(py, storage.as_ptr());
            let owner = Owner { tensor, storage: ManuallyDrop::new(storage) };
            let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } =
                *embedded::tensor::dl_tensor(tensor);
            let ndim = usize::try_from(ndim).unwrap_or(0);
            let extents = |start: *mut i64| match start.is_null() || ndim == 0 {
                true => &[][..],
                false => core::slice::from_raw_parts(start, ndim),
            };
            let strides = (!strides.is_null()).then(|| extents(strides));
            let is_read_only = embedded::tensor::is_read_only(tensor);
            let held = embedded::tensor::new_tensor(data, device, dtype, extents(shape), strides, byte_offset, owner)?;
            if is_read_only {
                embedded::tensor::set_read_only(held);
            }
            let is_valid = is_of_storage(py, object, &kept, before, embedded::tensor::dl_tensor(held));
            if !matches!(is_valid, Ok(true)) {
                embedded::dec_ref(held);
            }
            if is_valid? { Ok(held) } else { Err(moved()) }
        }
    }
}

/// Returns true if a class has one of the methods of PyTorch's tensors. Failed look-ups create
/// exceptions, so they are remembered.
fn is_like_pytorch(py: Py, class: Owned) -> PyResult<bool> {
    if WITHOUT.iter().any(|known| known.load(Ordering::Acquire) == class.as_ptr()) {
        return Ok(false);
    }
    for method in [STORAGE, IS_NEGATIVE] {
        // SAFETY: the class is alive.
        if unsafe { py.attribute_if_any(class.as_ptr(), method)? }.is_some() {
            return Ok(true);
        }
    }
    let is_taken = |place: &AtomicPtr<PyObject>| {
        place.compare_exchange(ptr::null_mut(), class.as_ptr(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    if WITHOUT.iter().any(is_taken) {
        let _kept = class.into_ptr();
    }
    Ok(false)
}

/// A tensor, and the storage that its memory is in. The storage is given back with the
/// interpreter's lock.
struct Owner {
    tensor: *mut TVMFFIObject,
    storage: ManuallyDrop<Owned>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: this value owns the reference.
        unsafe { embedded::dec_ref(self.tensor) };
        // After the interpreter has shut down, its objects no longer exist.
        // SAFETY: dropped once, and not used afterwards.
        with_lock(|_| unsafe { ManuallyDrop::drop(&mut self.storage) });
    }
}

/// Returns true if the elements of an exported tensor are in the storage's memory, or are not
/// shared with other objects.
///
/// # Safety
/// `object` is alive, and `tensor` has strides and does not change.
unsafe fn is_of_storage(
    py: Py,
    object: *mut PyObject,
    storage: &Owned,
    before: Option<i64>,
    tensor: &DLTensor,
) -> PyResult<bool> {
    // SAFETY: promised by the caller; the storage is held.
    unsafe {
        let Some(elements) = elements(tensor).filter(|_| !tensor.data.is_null()) else { return Ok(true) };
        // The memory is not reused while the storage is alive, so the addresses identify it.
        let memory = memory(py, storage.as_ptr())?;
        if memory.as_ref().is_some_and(|memory| memory.start <= elements.start && elements.end <= memory.end) {
            return Ok(true);
        }
        let after = start(py, object)?;
        // A derived class may export a copy, which is not shared.
        let is_copy = after.map(i128::from) != Some(first(tensor));
        Ok(after == before && (memory.is_none() || is_copy))
    }
}

/// Returns the address of the element whose indices are all 0.
fn first(tensor: &DLTensor) -> i128 {
    tensor.data.addr() as i128 + i128::from(tensor.byte_offset)
}

/// Returns the addresses of the elements of a tensor; `None` for a tensor without elements.
///
/// # Safety
/// `tensor` is valid and has strides.
unsafe fn elements(tensor: &DLTensor) -> Option<Range<i128>> {
    let bits = i128::from(tensor.dtype.bits) * i128::from(tensor.dtype.lanes);
    let (mut lowest, mut highest) = (0_i128, 0_i128);
    for axis in 0..usize::try_from(tensor.ndim).unwrap_or(0) {
        // SAFETY: promised by the caller: there are as many extents and strides as axes.
        let (extent, stride) = unsafe { (*tensor.shape.add(axis), *tensor.strides.add(axis)) };
        if extent <= 0 {
            return None;
        }
        let reach = i128::from(extent - 1) * i128::from(stride);
        let limit = if reach < 0 { &mut lowest } else { &mut highest };
        *limit = limit.saturating_add(reach);
    }
    let start = lowest.saturating_mul(bits).div_euclid(8);
    let end = highest.saturating_add(1).saturating_mul(bits).saturating_add(7).div_euclid(8);
    let first = first(tensor);
    Some(first.saturating_add(start)..first.saturating_add(end))
}

/// Returns the addresses of a storage's memory; `None` if the storage does not report them, or does
/// not have memory.
///
/// # Safety
/// `storage` is alive.
unsafe fn memory(py: Py, storage: *mut PyObject) -> PyResult<Option<Range<i128>>> {
    // SAFETY: promised by the caller.
    let (start, size) = unsafe { (number(py, storage, c"data_ptr")?, number(py, storage, c"nbytes")?) };
    Ok(match (start, size) {
        (Some(start @ 1..), Some(size)) => Some(i128::from(start)..i128::from(start) + i128::from(size)),
        _ => None,
    })
}

/// The error for a tensor whose memory is not that of the storage that was obtained before.
pub(crate) fn moved() -> Refused {
    Refused::Because { kind: "ValueError", clause: "the tensor was given other memory while it was converted".into() }
}

/// The error for a tensor whose elements differ from those in memory.
pub(crate) fn bit_is_set(bit: &str) -> Refused {
    let method = if bit == "conjugate" { "resolve_conj" } else { "resolve_neg" };
    let clause = format!("the tensor has its {bit} bit set; pass tensor.{method}()");
    Refused::Because { kind: "ValueError", clause }
}

/// The result of a method of an array's class that takes the array alone; `None` if the class has
/// no such method.
///
/// # Safety
/// `object` is alive.
unsafe fn ask(py: Py, object: *mut PyObject, name: &CStr) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(method) = py.attribute_if_any(py.class_of(object).as_ptr(), name)? else { return Ok(None) };
        py.call(method.as_ptr(), [Owned::share(py, object)]).map(Some)
    }
}

/// Returns the address of the elements of an array, if its class reports it.
///
/// # Safety
/// `object` is alive.
unsafe fn start(py: Py, object: *mut PyObject) -> PyResult<Option<i64>> {
    // SAFETY: promised by the caller.
    unsafe { number(py, object, c"data_ptr") }
}

/// Returns the integer that a method returns; `None` if there is no such method, or it raises an
/// error, as for devices without addresses and for tensors around other tensors.
///
/// # Safety
/// `object` is alive.
unsafe fn number(py: Py, object: *mut PyObject, name: &CStr) -> PyResult<Option<i64>> {
    // SAFETY: promised by the caller.
    unsafe {
        let number =
            ask(py, object, name).and_then(|number| number.map(|number| py.integer_of(number.as_ptr())).transpose());
        // Not the exceptions that end a program.
        if number.is_err() && py.PyErr_ExceptionMatches(py.PyExc_Exception()) != 0 {
            py.PyErr_Clear();
            return Ok(None);
        }
        number
    }
}
