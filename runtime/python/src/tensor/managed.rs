//! Tensors of DLPack that are taken over, and tensors as Python objects.

use core::ffi::CStr;
use core::ptr;

use kernpack_core::abi::{DLManagedTensorVersioned, TVMFFIObject, dlpack_flags};
use kernpack_core::{Error, embedded, provider};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::heap_type::{holder, pointer_place};
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;
use crate::signature::refused::{Refused, read_only};

/// The name of a capsule with a tensor, in the form before DLPack 1.0.
pub(crate) const CAPSULE: &CStr = c"dltensor";
/// The name of a capsule with a tensor of DLPack 1.0.
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";

/// Creates the Python object for a tensor, which holds another reference to it.
///
/// # Safety
/// `tensor` is a live tensor object.
pub(crate) unsafe fn new(py: Py, tensor: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe { holder(py, State::get(py).tensor, tensor) }
}

/// The tensor object behind a Python object, borrowed from it.
///
/// # Safety
/// The interpreter calls with its lock held, with an object of the class of tensors.
pub(crate) unsafe fn tensor_of(this: *mut PyObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller: a pointer follows the header.
    unsafe { (*pointer_place(Py::held(), this)).cast() }
}

/// Creates a tensor that takes over a managed one. On failure the caller still owns it.
///
/// # Safety
/// `managed` is a valid tensor of DLPack, which is the caller's.
pub(crate) unsafe fn imported(
    managed: *mut DLManagedTensorVersioned,
    writes: bool,
) -> Result<*mut TVMFFIObject, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        let is_read_only = (*managed).flags & dlpack_flags::READ_ONLY != 0;
        if writes && is_read_only {
            return Err(read_only());
        }
        let mut tensor = ptr::null_mut();
        Error::check((provider::api().tensor_from_dlpack_versioned)(managed, 0, 0, &mut tensor))?;
        // Other implementations of the ABI lose the flag.
        if is_read_only {
            embedded::tensor::set_read_only(tensor);
        }
        Ok(tensor)
    }
}

/// Converts a pair of integers.
pub(crate) fn pair(py: Py, object: &Owned) -> PyResult<[i64; 2]> {
    let mut numbers = [0; 2];
    for (index, number) in numbers.iter_mut().enumerate() {
        // SAFETY: the objects are alive.
        unsafe {
            let index = Owned::take(py, py.PyLong_FromLongLong(index as i64))?;
            let item = Owned::take(py, py.PyObject_GetItem(object.as_ptr(), index.as_ptr()))?;
            *number = py.integer_of(item.as_ptr())?;
        }
    }
    Ok(numbers)
}
