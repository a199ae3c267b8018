//! Tensors of the library as Python objects, which `numpy.from_dlpack`, `numpy.asarray`,
//! `torch.from_dlpack` and `memoryview` accept.

use core::ffi::{c_int, c_void};
use core::ptr;

use kernpack_core::abi::{DLTensor, TVMFFIObject, dlpack_flags};
use kernpack_core::{DataType, Device, Error, Function, embedded, provider};

use super::tensor_copy;
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyBuffer, PyGetSet, PyMethodDef, PyObject, Slot, constant};
use crate::cpython::exception;
use crate::cpython::heap_type::{self, Shared, pointer_place, refuse_new, release};
use crate::cpython::interpreter::without_lock;
use crate::cpython::object::{Owned, PyResult};
use crate::tensor::array::format;
use crate::tensor::managed::{CAPSULE, VERSIONED, pair};
use crate::tensor::offer;

/// Creates the class of tensors.
pub(crate) fn class(py: Py) -> PyResult<Owned> {
    static METHODS: Shared<[PyMethodDef; 7]> = Shared([
        PyMethodDef {
            name: c"__dlpack__".as_ptr(),
            function: dlpack as *const c_void,
            flags: constant::METH_VARARGS | constant::METH_KEYWORDS,
            doc: c"A capsule with the tensor, which shares its memory.".as_ptr(),
        },
        PyMethodDef::no_arguments(c"__dlpack_device__", dlpack_device, c"Kind and number of the device."),
        PyMethodDef::no_arguments(
            c"numpy",
            numpy,
            c"numpy($self, /)\n--\n\nThe tensor as a NumPy array, which shares its memory.",
        ),
        PyMethodDef {
            name: c"__array__".as_ptr(),
            function: array as *const c_void,
            flags: constant::METH_VARARGS | constant::METH_KEYWORDS,
            doc: c"As numpy(): NumPy calls it where it finds no buffer, and gets the reason.".as_ptr(),
        },
        PyMethodDef::no_arguments(c"__reduce__", tensor_copy::reduce, c"Element type, shape and bytes, for pickle."),
        PyMethodDef {
            name: c"__deepcopy__".as_ptr(),
            function: tensor_copy::deep_copy as *const c_void,
            flags: constant::METH_O,
            doc: c"__deepcopy__($self, memo, /)\n--\n\nA tensor with a copy of the elements, on the same device."
                .as_ptr(),
        },
        PyMethodDef::END,
    ]);
    static PROPERTIES: Shared<[PyGetSet; 5]> = Shared([
        PyGetSet::new(c"shape", shape, c"Number of elements along each axis."),
        PyGetSet::new(c"dtype", dtype, c"The elements' type, such as float32."),
        PyGetSet::new(c"device", device, c"Where the elements are, such as cpu:0."),
        PyGetSet::new(c"ndim", ndim, c"Number of axes."),
        PyGetSet::END,
    ]);
    let slots = [
        Slot { id: constant::TP_DEALLOC, value: release as *const c_void },
        Slot { id: constant::TP_NEW, value: refuse_new as *const c_void },
        Slot { id: constant::TP_REPR, value: repr as *const c_void },
        Slot { id: constant::TP_METHODS, value: (&raw const METHODS.0).cast() },
        Slot { id: constant::TP_GETSET, value: (&raw const PROPERTIES.0).cast() },
        Slot { id: constant::BF_GETBUFFER, value: get_buffer as *const c_void },
        Slot { id: constant::BF_RELEASEBUFFER, value: release_buffer as *const c_void },
        Slot {
            id: constant::TP_DOC,
            value: c"A tensor. NumPy, PyTorch, JAX and memoryview take it without a copy.".as_ptr().cast(),
        },
        Slot::END,
    ];
    let class = heap_type::new(py, c"kernpack.Tensor", size_of::<*mut c_void>(), constant::TPFLAGS_DEFAULT, &slots)?;
    offer::offer(py, &class)?;
    Ok(class)
}

/// The tensor behind a Python object, borrowed from it.
///
/// # Safety
/// The interpreter calls with its lock held, with an object of the class of tensors.
unsafe fn of<'a>(this: *mut PyObject) -> (Py, *mut TVMFFIObject, &'a DLTensor) {
    // SAFETY: promised by the caller.
    unsafe {
        let py = Py::held();
        let tensor = (*pointer_place(py, this)).cast();
        (py, tensor, embedded::tensor::dl_tensor(tensor))
    }
}

fn extents(tensor: &DLTensor) -> &[i64] {
    if tensor.ndim <= 0 || tensor.shape.is_null() {
        return &[];
    }
    // SAFETY: a tensor object has `ndim` dimensions.
    unsafe { core::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
}

unsafe extern "C" fn shape(this: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter's convention for properties.
    let (py, _, tensor) = unsafe { of(this) };
    to_python::shape(py, extents(tensor)).map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn dtype(this: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter's convention for properties.
    let (py, _, tensor) = unsafe { of(this) };
    py.text(&to_python::dtype_name(tensor.dtype)).map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn device(this: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter's convention for properties.
    let (py, _, tensor) = unsafe { of(this) };
    py.text(&Device::from_raw(tensor.device).to_string()).map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn ndim(this: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter's convention for properties.
    unsafe {
        let (py, _, tensor) = of(this);
        py.PyLong_FromLongLong(tensor.ndim.into())
    }
}

unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention.
    let (py, _, tensor) = unsafe { of(this) };
    let (dtype, device) = (to_python::dtype_name(tensor.dtype), Device::from_raw(tensor.device));
    let text = format!("Tensor(shape={:?}, dtype={dtype}, device={device})", extents(tensor));
    py.text(&text).map_or(ptr::null_mut(), Owned::into_ptr)
}

unsafe extern "C" fn dlpack_device(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention for methods.
    unsafe {
        let (py, _, tensor) = of(this);
        let pair = (|| {
            let kind = Owned::take(py, py.PyLong_FromLongLong(tensor.device.device_type.into()))?;
            py.tuple([kind, Owned::take(py, py.PyLong_FromLongLong(tensor.device.device_id.into()))?])
        })();
        pair.map_or(ptr::null_mut(), Owned::into_ptr)
    }
}

/// `__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)`.
unsafe extern "C" fn dlpack(this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention for methods.
    let capsule = unsafe {
        let (py, tensor, header) = of(this);
        capsule(py, tensor, header, args, kwargs)
    };
    capsule.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// The tensor is alive, `args` a tuple, and `kwargs` a dict or NULL.
unsafe fn capsule(
    py: Py,
    tensor: *mut TVMFFIObject,
    header: &DLTensor,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> PyResult<Owned> {
    // SAFETY: promised by the caller.
    unsafe {
        if py.PyTuple_Size(args) > 0 {
            return Err(py.raise(py.PyExc_TypeError(), "__dlpack__ takes its arguments by name"));
        }
        let argument = |name: &str| -> PyResult<Option<Owned>> {
            if kwargs.is_null() {
                return Ok(None);
            }
            let name = py.text(name)?;
            Ok(py.dict_item(kwargs, name.as_ptr())?.filter(|value| value.as_ptr() != py.none()))
        };
        if let Some(copy) = argument("copy")?
            && py.PyObject_IsTrue(copy.as_ptr()) != 0
        {
            return Err(
                py.raise(py.PyExc_BufferError(), "a tensor of a Kernpack library is exported without a copy only")
            );
        }
        if let Some(device) = argument("dl_device")? {
            let own = [header.device.device_type, header.device.device_id];
            let wanted = pair(py, &device)?;
            if wanted != own.map(i64::from) {
                return Err(py.raise(
                    py.PyExc_BufferError(),
                    "a tensor of a Kernpack library is exported on its own device only",
                ));
            }
        }
        if let Some(stream) = argument("stream")? {
            wait_for(py, header, &stream)?;
        }
        let version = match argument("max_version")? {
            Some(version) => pair(py, &version)?[0],
            None => 0,
        };
        if version >= 1 {
            let mut managed = ptr::null_mut();
            let status = (provider::api().tensor_to_dlpack_versioned)(tensor, &mut managed);
            Error::check(status).map_err(|error| exception::raise(py, &error))?;
            // Other implementations of the ABI lose the flag.
            if embedded::tensor::is_read_only(tensor) {
                (*managed).flags |= dlpack_flags::READ_ONLY;
            }
            let object = py.PyCapsule_New(managed.cast(), VERSIONED.as_ptr(), Some(drop_versioned));
            if object.is_null()
                && let Some(delete) = (*managed).deleter
            {
                delete(managed);
            }
            return Owned::take(py, object);
        }
        if embedded::tensor::is_read_only(tensor) {
            let text = "the tensor is read-only, which DLPack before 1.0 cannot express; pass max_version=(1, 0), or use a newer \
                        version of the consumer, or export a copy";
            return Err(py.raise(py.PyExc_BufferError(), text));
        }
        let mut managed = ptr::null_mut();
        let status = (provider::api().tensor_to_dlpack)(tensor, &mut managed);
        Error::check(status).map_err(|error| exception::raise(py, &error))?;
        let object = py.PyCapsule_New(managed.cast(), CAPSULE.as_ptr(), Some(drop_unversioned));
        if object.is_null()
            && let Some(delete) = (*managed).deleter
        {
            delete(managed);
        }
        Owned::take(py, object)
    }
}

/// The global function that waits for the current stream of a device; libraries with devices
/// register it.
const SYNCHRONIZE: &str = "kernpack.device.synchronize";

/// Ensures that a consumer's stream sees the written tensor: waits for the current stream of the
/// tensor's device, unless the consumer uses that one, or declares by -1 that it waits itself.
fn wait_for(py: Py, header: &DLTensor, stream: &Owned) -> PyResult<()> {
    let device = Device::from_raw(header.device);
    // SAFETY: the object is alive.
    let stream = unsafe { py.integer_of(stream.as_ptr())? };
    if device.is_host_accessible() || stream == -1 {
        return Ok(());
    }
    // SAFETY: the function may be called with any numbers.
    let own = unsafe { (provider::api().env_get_stream)(header.device.device_type, header.device.device_id) };
    // 0 and 1 are names of the default stream.
    let is_own = i64::try_from(own.addr()).is_ok_and(|own| own == stream || (own == 0 && (0..=1).contains(&stream)));
    if is_own {
        return Ok(());
    }
    let waited = Function::global(SYNCHRONIZE).and_then(|wait| without_lock(py, || wait.call((device,))));
    waited.map(drop).map_err(|error| exception::raise(py, &error))
}

/// Frees the tensor of a capsule that was not consumed: a consumer changes the capsule's name.
unsafe extern "C" fn drop_versioned(capsule: *mut PyObject) {
    // SAFETY: the interpreter calls with its lock held for a capsule made above.
    unsafe {
        let py = Py::held();
        if py.PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            let managed = py
                .PyCapsule_GetPointer(capsule, VERSIONED.as_ptr())
                .cast::<kernpack_core::abi::DLManagedTensorVersioned>();
            if let Some(delete) = (*managed).deleter {
                delete(managed);
            }
        }
    }
}

/// Like [`drop_versioned`], for the form before DLPack 1.0.
unsafe extern "C" fn drop_unversioned(capsule: *mut PyObject) {
    // SAFETY: as in `drop_versioned`.
    unsafe {
        let py = Py::held();
        if py.PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) != 0 {
            let managed =
                py.PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<kernpack_core::abi::DLManagedTensor>();
            if let Some(delete) = (*managed).deleter {
                delete(managed);
            }
        }
    }
}

unsafe extern "C" fn array(this: *mut PyObject, _: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention for methods; NumPy applies the other arguments to the
    // array.
    unsafe { numpy(this, ptr::null_mut()) }
}

unsafe extern "C" fn numpy(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter's convention for methods.
    let array = unsafe {
        let (py, _, tensor) = of(this);
        let device = Device::from_raw(tensor.device);
        if !device.is_host_accessible() {
            let text = format!("a tensor on {device} is not a NumPy array; copy it to the CPU first");
            py.raise(py.PyExc_ValueError(), &text);
            return ptr::null_mut();
        }
        if format(tensor.dtype).is_none() {
            let text = format!("NumPy has no elements of type {}", DataType::from_raw(tensor.dtype));
            py.raise(py.PyExc_TypeError(), &text);
            return ptr::null_mut();
        }
        py.import(c"numpy").and_then(|numpy| {
            let asarray = py.attribute(numpy.as_ptr(), c"asarray")?;
            py.call(asarray.as_ptr(), [Owned::share(py, this)])
        })
    };
    array.map_or(ptr::null_mut(), Owned::into_ptr)
}

const WANTS_WRITING: c_int = 0x0001;
const WANTS_STRIDES: c_int = 0x0010;
const WANTS_FORMAT: c_int = 0x0004;

unsafe extern "C" fn get_buffer(this: *mut PyObject, buffer: *mut PyBuffer, flags: c_int) -> c_int {
    // SAFETY: the interpreter's convention: a struct to fill, whose owner takes a reference to this
    // object.
    unsafe {
        let (py, object, tensor) = of(this);
        (*buffer).owner = ptr::null_mut();
        let is_read_only = embedded::tensor::is_read_only(object);
        let refuse = |text: &str| {
            py.raise(py.PyExc_BufferError(), text);
            -1
        };
        if !Device::from_raw(tensor.device).is_host_accessible() {
            return refuse("the tensor is in the memory of a device, which a buffer cannot reach");
        }
        if flags & WANTS_WRITING != 0 && is_read_only {
            return refuse("the tensor is read-only, so it has no buffer to write to; make a copy");
        }
        let Some(format) = format(tensor.dtype) else {
            return refuse(&format!("a buffer has no elements of type {}", DataType::from_raw(tensor.dtype)));
        };
        let is_contiguous = embedded::tensor::is_contiguous(tensor);
        if flags & WANTS_STRIDES == 0 && !is_contiguous {
            return refuse("the tensor is not contiguous, so a buffer of it needs strides");
        }
        let shape = extents(tensor);
        let item_size = isize::from(tensor.dtype.bits) / 8;
        // Shape, then strides in bytes; they live until the buffer is released.
        let mut numbers: Vec<isize> = shape.iter().map(|extent| *extent as isize).collect();
        let mut row_major = item_size;
        let mut strides = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            strides[axis] = row_major;
            row_major *= shape[axis].max(1) as isize;
            if !tensor.strides.is_null() && !is_contiguous {
                strides[axis] = *tensor.strides.add(axis) as isize * item_size;
            }
        }
        numbers.append(&mut strides);
        let count: i64 = shape.iter().product();
        let numbers = Box::into_raw(numbers.into_boxed_slice());
        py.Py_IncRef(this);
        buffer.write(PyBuffer {
            start: tensor.data.wrapping_byte_add(tensor.byte_offset as usize),
            owner: this,
            size: count as isize * item_size,
            item_size,
            read_only: is_read_only.into(),
            ndim: tensor.ndim,
            format: if flags & WANTS_FORMAT == 0 { ptr::null() } else { format.as_ptr() },
            shape: numbers.cast(),
            strides: numbers.cast::<isize>().add(shape.len()),
            suboffsets: ptr::null_mut(),
            internal: numbers.cast(),
        });
        0
    }
}

unsafe extern "C" fn release_buffer(_: *mut PyObject, buffer: *mut PyBuffer) {
    // SAFETY: a buffer filled above, given back once; the numbers are twice as many as axes. The
    // interpreter releases the owner.
    unsafe {
        let numbers = ptr::slice_from_raw_parts_mut((*buffer).internal.cast::<isize>(), 2 * (*buffer).ndim as usize);
        drop(Box::from_raw(numbers));
        (*buffer).internal = ptr::null_mut();
    }
}
