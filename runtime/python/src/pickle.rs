//! How objects are pickled and copied.

use core::ptr;

use kernpack_core::reflect::TypeInfo;

use crate::capi::{Py, PyObject};
use crate::class::{self, object_of};
use crate::construct::parameters;
use crate::object::{Owned, PyResult, Raised};

/// How objects are pickled and copied: the class, called with the values of the fields that its constructor takes by name.
pub(crate) unsafe extern "C" fn reduce(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `repr`.
    let reduced = unsafe { reduced(Py::held(), this) };
    reduced.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `this` is alive and of a class derived from the base.
unsafe fn reduced(py: Py, this: *mut PyObject) -> PyResult<Owned> {
    // SAFETY: promised by the caller; all objects used are alive.
    unsafe {
        object_of(py, this)?;
        let class = py.type_of(this);
        let (index, name) = class::registered(py, class);
        let Some(names) = TypeInfo::find(index).and_then(|info| parameters(py, info)) else {
            return Err(py.raise(
                py.PyExc_TypeError(),
                &format!("{name} has no constructor, so it cannot be pickled or copied"),
            ));
        };
        let named = Owned::take(py, py.PyDict_New())?;
        for parameter in names {
            let parameter = py.interned(&parameter)?;
            let value = Owned::take(py, py.PyObject_GetAttr(this, parameter.as_ptr()))?;
            if py.PyDict_SetItem(named.as_ptr(), parameter.as_ptr(), value.as_ptr()) != 0 {
                return Err(Raised);
            }
        }
        let functools = py.import(c"functools")?;
        let partial = py.attribute(functools.as_ptr(), c"partial")?;
        let positional = py.tuple([Owned::share(py, class)])?;
        let again = Owned::take(py, py.PyObject_Call(partial.as_ptr(), positional.as_ptr(), named.as_ptr()))?;
        let nothing = py.tuple([])?;
        match py.attribute_if_any(this, c"__dict__")? {
            // What a derived class adds.
            Some(attributes) => py.tuple([again, nothing, attributes]),
            None => py.tuple([again, nothing]),
        }
    }
}
