//! DLPack's exchange interface for tensors of the library, which other frameworks call.

use core::alloc::Layout;
use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::alloc;

use kernpack_core::abi::{DLManagedTensorVersioned, DLTensor, TVMFFIObject, device_type, dlpack_flags};
use kernpack_core::{Error, embedded, provider};

use super::exchange_table::{ATTRIBUTE, Api, CAPSULE, SetError, VERSION};
use super::managed;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::heap_type::{Shared, pointer_place};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::signature::refused::Refused;

/// Adds the interface to the class of tensors.
pub(crate) fn offer(py: Py, class: &Owned) -> PyResult<()> {
    static API: Shared<Api> = Shared(Api {
        version: VERSION,
        previous: ptr::null(),
        allocate: Some(allocate),
        managed_of: Some(managed_of),
        object_of: Some(object_of),
        borrow: Some(borrow),
        current_stream: Some(current_stream),
    });
    // SAFETY: a table that lives forever, and a class.
    unsafe {
        let capsule = Owned::take(py, py.PyCapsule_New((&raw const API.0).cast_mut().cast(), CAPSULE.as_ptr(), None))?;
        match py.PyObject_SetAttrString(class.as_ptr(), ATTRIBUTE.as_ptr(), capsule.as_ptr()) {
            0 => Ok(()),
            _ => Err(Raised),
        }
    }
}

/// Returns the tensor of an object of the library's class. For other objects, sets an exception and
/// returns NULL.
///
/// # Safety
/// The interpreter's lock is held, and the object is alive.
unsafe fn own(py: Py, object: *mut PyObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller; an object of the class has a tensor behind its header.
    unsafe {
        if py.type_of(object) != State::get(py).tensor {
            py.raise(py.PyExc_TypeError(), "this interface is for tensors of one Kernpack library");
            return ptr::null_mut();
        }
        (*pointer_place(py, object)).cast()
    }
}

unsafe extern "C" fn managed_of(object: *mut PyObject, out: *mut *mut DLManagedTensorVersioned) -> c_int {
    // SAFETY: a consumer calls with the lock held, a live object and a writable result.
    unsafe {
        let py = Py::held();
        let tensor = own(py, object);
        if tensor.is_null() {
            return -1;
        }
        match Error::check((provider::api().tensor_to_dlpack_versioned)(tensor, out)) {
            Ok(()) => {
                // Other implementations of the ABI lose the flag.
                if embedded::tensor::is_read_only(tensor) {
                    (**out).flags |= dlpack_flags::READ_ONLY;
                }
                0
            }
            Err(error) => {
                exception::raise(py, &error);
                -1
            }
        }
    }
}

unsafe extern "C" fn object_of(managed: *mut DLManagedTensorVersioned, out: *mut *mut PyObject) -> c_int {
    // SAFETY: as for `managed_of`; the tensor is ours from now on, and the new object holds a
    // reference of its own.
    unsafe {
        let py = Py::held();
        let tensor = match managed::imported(managed, false) {
            Ok(tensor) => tensor,
            Err(Refused::Raised(Raised)) => return -1,
            Err(Refused::Because { clause, .. }) => {
                py.raise(py.PyExc_BufferError(), &clause);
                return -1;
            }
        };
        let object = managed::new(py, tensor);
        embedded::dec_ref(tensor);
        match object {
            Ok(object) => {
                out.write(object.into_ptr());
                0
            }
            Err(Raised) => -1,
        }
    }
}

/// A plain description cannot say that the tensor is read-only: what is done with it is the
/// consumer's responsibility, as for all that is lent.
unsafe extern "C" fn borrow(object: *mut PyObject, out: *mut DLTensor) -> c_int {
    // SAFETY: as for `managed_of`.
    unsafe {
        let tensor = own(Py::held(), object);
        if tensor.is_null() {
            return -1;
        }
        out.copy_from_nonoverlapping(embedded::tensor::dl_tensor(tensor), 1);
        0
    }
}

unsafe extern "C" fn current_stream(kind: c_int, index: i32, out: *mut *mut c_void) -> c_int {
    // SAFETY: the function may be called with any numbers; the result is writable.
    unsafe { out.write((provider::api().env_get_stream)(kind, index)) };
    0
}

/// Host memory of a tensor.
struct Memory(*mut u8, Layout);

// SAFETY: this value owns the memory.
unsafe impl Send for Memory {}

impl Memory {
    /// The alignment for vector loads.
    const ALIGNMENT: usize = 64;

    fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size.max(1), Self::ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        (!start.is_null()).then_some(Self(start, layout))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { alloc::dealloc(self.0, self.1) }
    }
}

/// Creates a tensor of zeros with the shape and type of another one, in host memory only.
unsafe extern "C" fn allocate(
    like: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: SetError,
) -> c_int {
    // SAFETY: the consumer passes a tensor's description, a writable place, and what reports
    // errors.
    unsafe {
        let refuse = |text: &CStr| {
            set_error(context, c"RuntimeError".as_ptr(), text.as_ptr());
            -1
        };
        let DLTensor { device, dtype, ndim, shape, .. } = *like;
        if device.device_type != device_type::CPU {
            return refuse(c"a Kernpack library allocates tensors in host memory only");
        }
        let shape = match usize::try_from(ndim) {
            Ok(ndim) if ndim > 0 => core::slice::from_raw_parts(shape, ndim),
            _ => &[],
        };
        let bits = usize::from(dtype.bits) * usize::from(dtype.lanes);
        let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(usize::try_from(*extent).ok()?));
        let size = count.and_then(|count| count.checked_mul(bits)).map(|bits| bits.div_ceil(8));
        let Some(memory) = size.and_then(Memory::new) else { return refuse(c"there is no memory for the tensor") };
        let start = memory.0.cast();
        let Ok(tensor) = embedded::tensor::new_tensor(start, device, dtype, shape, None, 0, memory) else {
            return refuse(c"the tensor has too many dimensions");
        };
        let status = (provider::api().tensor_to_dlpack_versioned)(tensor, out);
        embedded::dec_ref(tensor);
        if status == 0 { 0 } else { refuse(c"the tensor cannot be exported") }
    }
}
