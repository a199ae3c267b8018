//! `__iter__` of a type: the library's method returns the elements, for example as a list, and
//! Python needs an iterator over them.

use core::ffi::{c_char, c_void};
use core::ptr;

use kernpack_core::function::FunctionInfo;

use crate::cpython::capi::{Py, PyMethodDef, PyObject, constant};
use crate::cpython::heap_type::leaked;
use crate::cpython::object::{Owned, PyResult};
use crate::signature::text::documentation;

/// The name of the method.
pub(crate) const METHOD: &str = "__iter__";
/// The name of the library's own method in the class.
pub(crate) const ELEMENTS: &str = "__kernpack_iter__";

/// The `__iter__` of a class whose [`ELEMENTS`] is the library's method.
pub(crate) fn new(py: Py, class: &Owned, info: &FunctionInfo) -> PyResult<Owned> {
    let method = PyMethodDef {
        name: leaked(METHOD),
        function: iterate as *const c_void,
        flags: constant::METH_NOARGS,
        doc: leaked(&documentation(METHOD, "$self", info, 1)) as *const c_char,
    };
    // SAFETY: a class, and a definition that lives forever.
    unsafe { Owned::take(py, py.PyDescr_NewMethod(class.as_ptr(), Box::leak(Box::new(method)))) }
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
