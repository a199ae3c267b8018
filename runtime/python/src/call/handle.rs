//! Functions as values: Python objects that hold a reference and can be called.

use core::ffi::c_void;
use core::ptr;

use kernpack_core::abi::{TVMFFIAny, TVMFFIFunctionCell, TVMFFIObject};
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, Error, embedded};

use super::arguments::Arguments;
use crate::convert::to_python;
use crate::cpython::capi::{Py, PyObject, Slot, constant};
use crate::cpython::exception;
use crate::cpython::heap_type::{self, pointer_place, refuse_new, release};
use crate::cpython::interpreter::{Call, without_lock};
use crate::cpython::object::{Owned, PyResult};
use crate::cpython::pending;
use crate::signature::wanted::Wanted;

/// Creates the class of functions as values.
pub(crate) fn class(py: Py) -> PyResult<Owned> {
    let slots = [
        Slot { id: constant::TP_DEALLOC, value: release as *const c_void },
        Slot { id: constant::TP_NEW, value: refuse_new as *const c_void },
        Slot { id: constant::TP_CALL, value: call as *const c_void },
        Slot {
            id: constant::TP_DOC,
            value: c"A function that came as a value. It takes arguments by position.".as_ptr().cast(),
        },
        Slot::END,
    ];
    heap_type::new(py, c"kernpack.Function", size_of::<*mut c_void>(), constant::TPFLAGS_DEFAULT, &slots)
}

/// Calls a function object with the interpreter's lock held.
///
/// # Safety
/// `function` is a live function object, and the views are valid for the call.
pub(crate) unsafe fn call_object(function: *mut TVMFFIObject, views: &[TVMFFIAny]) -> Result<Any, Error> {
    // SAFETY: promised by the caller; on success the callee has written an owned value, or left
    // None.
    unsafe {
        let Some(entry_point) = embedded::body::<TVMFFIFunctionCell>(function).safe_call else {
            return Err(Error::internal_error("the function object has no entry point"));
        };
        let mut result = TVMFFIAny::NONE;
        Error::check(entry_point(function.cast(), views.as_ptr(), views.len() as i32, &mut result))?;
        Ok(Any::from_raw(result))
    }
}

unsafe extern "C" fn call(this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter calls with its lock held, with an object of the class, a tuple, and a
    // dict or NULL.
    let result = unsafe {
        let py = Py::held();
        run(py, (*pointer_place(py, this)).cast(), args, kwargs)
    };
    result.map_or(ptr::null_mut(), Owned::into_ptr)
}

/// # Safety
/// `function` is alive for the call; `args` is a tuple and `kwargs` a dict or NULL.
unsafe fn run(py: Py, function: *mut TVMFFIObject, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<Owned> {
    const ANY: TypeSchema = TypeSchema::new("Any");
    // SAFETY: promised by the caller; the views live until `arguments` is dropped.
    unsafe {
        if !kwargs.is_null() && py.PyDict_Size(kwargs) > 0 {
            let text = "a function that came as a value takes arguments by position only";
            return Err(py.raise(py.PyExc_TypeError(), text));
        }
        let _call = Call::enter(py);
        let mut arguments = Arguments::new();
        for index in 0..py.PyTuple_Size(args) {
            arguments.add(py, py.PyTuple_GetItem(args, index), &Wanted::ANY, &format_args!("argument {index}"))?;
        }
        let Some(entry_point) = embedded::body::<TVMFFIFunctionCell>(function).safe_call else {
            return Err(py.raise(py.PyExc_RuntimeError(), "the function object has no entry point"));
        };
        let views = arguments.views();
        let mut result = Any::NONE.into_raw();
        // Its effect is unknown, so other threads run meanwhile.
        let status = without_lock(py, || entry_point(function.cast(), views.as_ptr(), views.len() as i32, &mut result));
        let result = Error::check(status).map(|()| Any::from_raw(result));
        match pending::or(result) {
            Ok(result) => to_python::value(py, result, &ANY),
            Err(error) => Err(exception::raise(py, &error)),
        }
    }
}
