//! Special methods whose result Python takes in another form. The library's `__iter__` returns the
//! elements, for example as a list, and Python needs an iterator over them; its `__buffer__`
//! returns a tensor or bytes, and Python needs their buffer.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use kernpack_core::function::FunctionInfo;

use crate::cpython::capi::{Py, PyBuffer, PyMethodDef, PyObject, Slot, constant};
use crate::cpython::heap_type::leaked;
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::signature::text::documentation;

const ITER: &str = "__iter__";
/// The method of an object whose memory others read: a slot of its class, which is its `__buffer__`
/// since Python 3.12.
const BUFFER: &str = "__buffer__";

/// The attribute for a method of the library, which is called by the one that Python calls.
pub(crate) fn name(method: &str) -> &str {
    match method {
        ITER => "__kernpack_iter__",
        BUFFER => "__kernpack_buffer__",
        name => name,
    }
}

/// The method that Python calls in place of the library's own.
pub(crate) fn method(py: Py, class: &Owned, name: &str, info: &FunctionInfo) -> PyResult<Option<Owned>> {
    if name != ITER {
        return Ok(None);
    }
    let method = PyMethodDef {
        name: leaked(ITER),
        function: iterate as *const c_void,
        flags: constant::METH_NOARGS,
        doc: leaked(&documentation(ITER, "$self", info, 1)) as *const c_char,
    };
    // SAFETY: a class, and a definition that lives forever.
    unsafe { Owned::take(py, py.PyDescr_NewMethod(class.as_ptr(), Box::leak(Box::new(method)))).map(Some) }
}

/// The slot of a class with this method, if it has one.
pub(crate) fn slot(method: &str) -> Option<Slot> {
    (method == BUFFER).then_some(Slot { id: constant::BF_GETBUFFER, value: get_buffer as *const c_void })
}

unsafe extern "C" fn iterate(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with an object of the method's class.
    let iterator = unsafe { iterator(Py::held(), this) };
    iterator.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `this` is alive.
unsafe fn iterator(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; the other objects are alive.
    unsafe {
        let method = py.attribute(this, c"__kernpack_iter__")?;
        let elements = py.call(method.as_ptr(), [])?;
        // An iterator of the library may be this object itself.
        match py.attribute_if_any(elements.as_ptr(), c"__next__")? {
            Some(_) => Ok(elements),
            None => Owned::take(py, py.PyObject_GetIter(elements.as_ptr())),
        }
    }
}

/// The buffer of what the method returns, which owns and releases it.
unsafe extern "C" fn get_buffer(this: *mut PyObject, buffer: *mut PyBuffer, flags: c_int) -> c_int {
    // SAFETY: the interpreter calls with its lock held, with an object of the class and a writable
    // buffer, which refers to nothing before it is filled.
    let filled: PyResult<()> = unsafe {
        (*buffer).owner = ptr::null_mut();
        Py::held().nested(|py| {
            let method = py.attribute(this, c"__kernpack_buffer__")?;
            let memory = py.call(method.as_ptr(), [])?;
            match py.PyObject_GetBuffer(memory.as_ptr(), buffer, flags) {
                0 => Ok(()),
                _ => Err(Raised),
            }
        })
    };
    if filled.is_ok() { 0 } else { -1 }
}
