//! Python arrays as tensors, in place: through the buffer protocol, else through DLPack.

use core::ffi::{CStr, c_int};
use core::ptr;

use kernpack_core::abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, TVMFFIObject, device_type, dtype_code,
};
use kernpack_core::provider;
use kernpack_core::{Device, Error, embedded};

use super::exchange;
use super::managed::{CAPSULE, VERSIONED, imported, pair};
use super::numpy_memory::Held;
use super::stored::Stored;
use crate::cpython::capi::{Py, PyBuffer, PyObject};
use crate::cpython::interpreter::with_lock;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::signature::refused::{Refused, read_only};

/// Shape, strides and format, of memory that may be read-only.
const FULL_READ_ONLY: c_int = 0x0100 | 0x0010 | 0x0008 | 0x0004;

/// A buffer that a tensor borrows from, and the NumPy memory behind it. It is released with the
/// interpreter's lock held.
struct Lent(Box<PyBuffer>, Option<Held>);

// SAFETY: the buffer is only touched with the interpreter's lock.
unsafe impl Send for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        // After Python has ended, its objects are gone.
        with_lock(|py| {
            if let Some(held) = self.1.take() {
                held.release(py);
            }
            // SAFETY: a buffer that was filled by PyObject_GetBuffer, given back once.
            unsafe { py.PyBuffer_Release(&raw mut *self.0) }
        });
    }
}

fn refused(kind: &'static str, clause: impl Into<String>) -> Refused {
    Refused::Because { kind, clause: clause.into() }
}

/// Returns true if an object is an array: it supports DLPack.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn is_array(py: Py, object: *mut PyObject) -> PyResult<bool> {
    // SAFETY: promised by the caller.
    unsafe { Ok(py.attribute_if_any(py.class_of(object).as_ptr(), c"__dlpack__")?.is_some()) }
}

/// Creates a tensor over the memory of an array, with one reference that is the caller's.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn of_array(py: Py, object: *mut PyObject, writes: bool) -> Result<*mut TVMFFIObject, Refused> {
    // SAFETY: promised by the caller.
    unsafe {
        if py.PyObject_CheckBuffer(object) != 0
            && let Some(tensor) = of_buffer(py, object, writes)?
        {
            return Ok(tensor);
        }
        of_dlpack(py, object, writes)
    }
}

/// Creates a tensor over the memory of an object with the buffer protocol; `None` if tensors do not
/// support its element type.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn of_buffer(
    py: Py,
    object: *mut PyObject,
    writes: bool,
) -> Result<Option<*mut TVMFFIObject>, Refused> {
    // SAFETY: promised by the caller; the function fills the struct when it succeeds, and `Lent`
    // gives it back. Its shape and strides live as long as the buffer.
    unsafe {
        // Zeros are an empty buffer, which the function fills.
        let mut buffer: Box<PyBuffer> = Box::new(core::mem::zeroed());
        if py.PyObject_GetBuffer(object, &raw mut *buffer, FULL_READ_ONLY) != 0 {
            // Objects that support the buffer protocol may still fail to return a buffer, as arrays
            // of bfloat16 do; then DLPack is tried.
            py.PyErr_Clear();
            return Ok(None);
        }
        let mut lent = Lent(buffer, None);
        // The object that exported the buffer: others forward it, such as a `pickle.PickleBuffer`.
        let giver = if lent.0.owner.is_null() { object } else { lent.0.owner };
        lent.1 = Held::behind(py, giver)?;
        let buffer = &lent.0;
        let format = if buffer.format.is_null() { c"B" } else { CStr::from_ptr(buffer.format) };
        let Some(dtype) = data_type(format.to_bytes(), buffer.item_size) else { return Ok(None) };
        if writes && buffer.read_only != 0 {
            return Err(read_only());
        }
        let ndim = buffer.ndim.max(0) as usize;
        let extents = |start: *mut isize| -> Vec<i64> {
            if start.is_null() { Vec::new() } else { (0..ndim).map(|axis| *start.add(axis) as i64).collect() }
        };
        let shape = if ndim == 1 && buffer.shape.is_null() {
            vec![(buffer.size / buffer.item_size.max(1)) as i64]
        } else {
            extents(buffer.shape)
        };
        if shape.len() != ndim || !buffer.suboffsets.is_null() {
            return Ok(None);
        }
        let item_size = buffer.item_size.max(1) as i64;
        let strides: Vec<i64> = extents(buffer.strides);
        if strides.iter().any(|stride| stride % item_size != 0) {
            return Err(refused("ValueError", "the array's strides are not multiples of its elements; pass a copy"));
        }
        let strides: Vec<i64> = strides.into_iter().map(|stride| stride / item_size).collect();
        let strides = (strides.len() == ndim).then_some(strides.as_slice());
        let device = DLDevice { device_type: device_type::CPU, device_id: 0 };
        let (start, is_read_only) = (buffer.start, buffer.read_only != 0);
        let tensor = embedded::tensor::new_tensor(start, device, dtype, &shape, strides, 0, lent)?;
        if is_read_only {
            embedded::tensor::set_read_only(tensor);
        }
        Ok(Some(tensor))
    }
}

/// The contiguous bytes of an object with the buffer protocol, or the exception that Python raises,
/// such as a BufferError for a view that is not contiguous.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn bytes_of_buffer(py: Py, object: *mut PyObject) -> PyResult<Vec<u8>> {
    // SAFETY: promised by the caller; as in `of_buffer`. Without flags the function gives
    // contiguous bytes or fails.
    unsafe {
        let mut buffer: Box<PyBuffer> = Box::new(core::mem::zeroed());
        if py.PyObject_GetBuffer(object, &raw mut *buffer, 0) != 0 {
            return Err(Raised);
        }
        let lent = Lent(buffer, None);
        let size = usize::try_from(lent.0.size).unwrap_or_default();
        if size == 0 {
            return Ok(Vec::new());
        }
        Ok(core::slice::from_raw_parts(lent.0.start.cast::<u8>(), size).to_vec())
    }
}

/// The element type of a buffer's format, in this machine's byte order.
fn data_type(format: &[u8], item_size: isize) -> Option<DLDataType> {
    let own_order = if cfg!(target_endian = "little") { b'<' } else { b'>' };
    let format = match format {
        [order, rest @ ..] if *order == own_order || matches!(order, b'@' | b'=') => rest,
        [b'|', rest @ ..] => rest,
        format => format,
    };
    let code = match format {
        [b'?'] => dtype_code::BOOL,
        [b'b' | b'h' | b'i' | b'l' | b'q' | b'n'] => dtype_code::INT,
        [b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'] => dtype_code::UINT,
        [b'e' | b'f' | b'd'] => dtype_code::FLOAT,
        [b'Z', b'f' | b'd'] => dtype_code::COMPLEX,
        _ => return None,
    };
    let bits = u8::try_from(item_size.checked_mul(8)?).ok()?;
    Some(DLDataType { code, bits, lanes: 1 })
}

/// The format of a buffer with these elements.
pub(crate) fn format(dtype: DLDataType) -> Option<&'static CStr> {
    if dtype.lanes != 1 {
        return None;
    }
    Some(match (dtype.code, dtype.bits) {
        (dtype_code::BOOL, 8) => c"?",
        (dtype_code::INT, 8) => c"b",
        (dtype_code::INT, 16) => c"h",
        (dtype_code::INT, 32) => c"i",
        (dtype_code::INT, 64) => c"q",
        (dtype_code::UINT, 8) => c"B",
        (dtype_code::UINT, 16) => c"H",
        (dtype_code::UINT, 32) => c"I",
        (dtype_code::UINT, 64) => c"Q",
        (dtype_code::FLOAT, 16) => c"e",
        (dtype_code::FLOAT, 32) => c"f",
        (dtype_code::FLOAT, 64) => c"d",
        (dtype_code::COMPLEX, 64) => c"Zf",
        (dtype_code::COMPLEX, 128) => c"Zd",
        _ => return None,
    })
}

/// The names of a capsule whose tensor was taken.
const USED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// Creates a tensor from an object that exports it through DLPack.
///
/// # Safety
/// `object` is alive.
unsafe fn of_dlpack(py: Py, object: *mut PyObject, writes: bool) -> Result<*mut TVMFFIObject, Refused> {
    // SAFETY: promised by the caller. A capsule of one of the two names holds a tensor of that
    // form, by the rules of DLPack; it is renamed when the tensor was taken.
    unsafe {
        if let Some(managed) = exchange::managed(py, object)? {
            return managed.into_tensor(writes);
        }
        let stored = Stored::of(py, object)?;
        let export = py.attribute(object, c"__dlpack__")?;
        let capsule = exported(py, object, &export)?;
        let mut tensor = ptr::null_mut();
        if py.PyCapsule_IsValid(capsule.as_ptr(), VERSIONED.as_ptr()) != 0 {
            let managed =
                py.PyCapsule_GetPointer(capsule.as_ptr(), VERSIONED.as_ptr()).cast::<DLManagedTensorVersioned>();
            if managed.is_null() {
                return Err(Raised.into());
            }
            tensor = imported(managed, writes)?;
            py.PyCapsule_SetName(capsule.as_ptr(), USED_VERSIONED.as_ptr());
        } else if py.PyCapsule_IsValid(capsule.as_ptr(), CAPSULE.as_ptr()) != 0 {
            let managed = py.PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()).cast::<DLManagedTensor>();
            if managed.is_null() {
                return Err(Raised.into());
            }
            Error::check((provider::api().tensor_from_dlpack)(managed, 0, 0, &mut tensor))?;
            py.PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr());
        } else {
            let class = py.class_name(object);
            return Err(refused("TypeError", format!("the __dlpack__ of {class} gave no tensor")));
        }
        match stored {
            Some(stored) => stored.hold(py, object, tensor),
            None => Ok(tensor),
        }
    }
}

/// The result of `__dlpack__`: in the form of DLPack 1.0 if the exporter supports it.
///
/// # Safety
/// `object`, which has the method `export`, is alive.
unsafe fn exported(py: Py, object: *mut PyObject, export: &Owned) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all other objects are alive.
    unsafe {
        let version =
            py.tuple([Owned::take(py, py.PyLong_FromLongLong(1))?, Owned::take(py, py.PyLong_FromLongLong(0))?])?;
        let named = Owned::take(py, py.PyDict_New())?;
        let name = py.text("max_version")?;
        if py.PyDict_SetItem(named.as_ptr(), name.as_ptr(), version.as_ptr()) != 0 {
            return Err(Raised);
        }
        let stream = consumer_stream(py, object)?;
        if let Some(stream) = &stream {
            let name = py.text("stream")?;
            if py.PyDict_SetItem(named.as_ptr(), name.as_ptr(), stream.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        let nothing = py.tuple([])?;
        let capsule = py.PyObject_Call(export.as_ptr(), nothing.as_ptr(), named.as_ptr());
        if !capsule.is_null() {
            return Owned::take(py, capsule);
        }
        if py.PyErr_ExceptionMatches(py.PyExc_TypeError()) == 0 {
            return Err(Raised);
        }
        // An exporter from before DLPack 1.0.
        py.PyErr_Clear();
        match stream {
            Some(stream) => py.call(export.as_ptr(), [stream]),
            None => py.call(export.as_ptr(), []),
        }
    }
}

/// The stream on which an array of a device has to be ready: the current one of this library's
/// device functions. `None` if the array is in host memory, or the stream is the device's default
/// one, which exporters use if none is given.
///
/// # Safety
/// `object` is alive.
unsafe fn consumer_stream(py: Py, object: *mut PyObject) -> PyResult<Option<Owned>> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(method) = py.attribute_if_any(object, c"__dlpack_device__")? else { return Ok(None) };
        let device = py.call(method.as_ptr(), [])?;
        let [kind, index] = pair(py, &device)?;
        let (Ok(kind), Ok(index)) = (i32::try_from(kind), i32::try_from(index)) else { return Ok(None) };
        let device = Device::new(kind, index);
        if device.is_host_accessible() {
            return Ok(None);
        }
        let stream = (provider::api().env_get_stream)(kind, index).addr();
        match i64::try_from(stream) {
            Ok(stream) if stream != 0 => Owned::take(py, py.PyLong_FromLongLong(stream)).map(Some),
            _ => Ok(None),
        }
    }
}
