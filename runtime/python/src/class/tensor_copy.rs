//! Pickles and copies of tensors: element type, shape, and the bytes in row-major order.

use core::ffi::CStr;
use core::ptr;

use kernpack_core::abi::{TVMFFIObject, device_type};
use kernpack_core::{Any, Bytes, DataType, Device, Result, Tensor, ensure, error};

use crate::convert::{from_python, to_python};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::state::State;
use crate::tensor::managed;

/// The name of the function of the module that creates a tensor of a pickle.
pub(super) const MAKE: &CStr = c"_tensor";

/// `__reduce__`.
pub(crate) unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with a tensor of this library.
    let reduced = unsafe { reduced(Py::held(), managed::tensor_of(this)) };
    reduced.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// `__deepcopy__`.
pub(crate) unsafe extern "C" fn deep_copy(this: *mut PyObject, _memo: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `reduce`; a new tensor is alive until it is held by its Python object.
    let copy = unsafe {
        let py = Py::held();
        let copy = owned(managed::tensor_of(this)).and_then(|tensor| tensor.to(tensor.device()));
        copy.map_err(|error| exception::raise(py, &error)).and_then(|copy| managed::new(py, copy.as_object().as_ptr()))
    };
    copy.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `tensor` is a live tensor object.
unsafe fn owned(tensor: *mut TVMFFIObject) -> Result<Tensor> {
    // SAFETY: promised by the caller; the new reference is transferred to the value.
    let value = unsafe {
        kernpack_core::embedded::inc_ref(tensor);
        Any::from_object(tensor)
    };
    value.to()
}

/// # Safety
/// `tensor` is a live tensor object.
unsafe fn reduced(py: Py, tensor: *mut TVMFFIObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    let tensor = unsafe { owned(tensor) }.and_then(|tensor| {
        let device = tensor.device();
        ensure!(
            device.device_type() == device_type::CPU,
            ValueError,
            "a tensor on {device} cannot be pickled; copy it to the CPU first"
        );
        tensor.to(Device::CPU)
    });
    let tensor = tensor.map_err(|error| exception::raise(py, &error))?;
    let described = tensor.dl_tensor();
    // SAFETY: a new tensor in row-major order, with so many bytes; all other objects are alive.
    unsafe {
        let maker = State::attribute_of_module(py, MAKE)?;
        let dtype = py.text(&tensor.dtype().to_string())?;
        let shape = to_python::shape(py, tensor.shape())?;
        let bytes = py.PyBytes_FromStringAndSize(described.data.cast(), tensor.size_in_bytes() as isize);
        let arguments = py.tuple([dtype, shape, Owned::take(py, bytes)?])?;
        py.tuple([maker, arguments])
    }
}

/// The function of the module for pickles of tensors.
pub(crate) unsafe extern "C" fn make(_: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with a tuple; a new tensor is alive until
    // its Python object holds it.
    let made = unsafe {
        let py = Py::held();
        from_python::result(py, arguments).and_then(|arguments| {
            let tensor = made(&arguments).map_err(|error| exception::raise(py, &error))?;
            managed::new(py, tensor.as_object().as_ptr())
        })
    };
    made.map_or(ptr::null_mut(), Owned::into_ptr)
}

fn made(arguments: &Any) -> Result<Tensor> {
    let (dtype, shape, data): (String, Vec<i64>, Bytes) = arguments.to()?;
    let dtype: DataType = dtype.parse()?;
    let bits = u128::from(dtype.bits()) * u128::from(dtype.lanes());
    let size = shape.iter().try_fold(bits, |size, extent| size.checked_mul(u128::try_from(*extent).ok()?));
    if size.is_none_or(|size| size.div_ceil(8) != data.len() as u128) {
        return Err(error!(ValueError, "no tensor of {dtype} with shape {shape:?} has {} bytes", data.len()));
    }
    let tensor = Tensor::empty(dtype, &shape, Device::CPU)?;
    if !data.is_empty() {
        // SAFETY: memory of that size which only we know.
        unsafe { tensor.dl_tensor().data.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
    Ok(tensor)
}
