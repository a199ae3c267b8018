//! Python callables as functions of the ABI: they may be kept, called from any thread, and come back as what they were.

use core::ffi::c_void;
use core::ptr;

use kernpack_core::abi::{SafeCall, TVMFFIAny, TVMFFIObject};
use kernpack_core::function::views;
use kernpack_core::value::TypeSchema;
use kernpack_core::{Error, embedded};

use crate::capi::{Py, PyObject};
use crate::exception;
use crate::from_python;
use crate::interpreter::with_lock;
use crate::object::{Owned, PyResult, Raised};
use crate::to_python;

/// Arguments that need no tuple.
const INLINE: usize = 6;
/// `PY_VECTORCALL_ARGUMENTS_OFFSET`.
const IN_FRONT: usize = 1 << (usize::BITS - 1);

/// A reference to a Python callable. The lock is taken for each use.
struct Callback(*mut PyObject);

// SAFETY: the object is only touched with the interpreter's lock.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Drop for Callback {
    fn drop(&mut self) {
        // When Python has ended its objects are gone.
        with_lock(|py| {
            // SAFETY: the reference is this value's.
            unsafe { py.Py_DecRef(self.0) }
        });
    }
}

/// A function object that calls a Python object.
///
/// # Safety
/// `object` is alive.
pub(crate) unsafe fn function(py: Py, object: *mut PyObject) -> PyResult<*mut TVMFFIObject> {
    // SAFETY: promised by the caller.
    let object = unsafe { Owned::share(py, object) };
    Ok(embedded::new_function(call, Callback(object.into_ptr())))
}

/// Whether functions with this entry point are made of Python objects, by this library.
pub(crate) fn is_entry_point(entry_point: SafeCall) -> bool {
    ptr::fn_addr_eq(entry_point, call as SafeCall)
}

/// The Python object of such a function, borrowed from it.
///
/// # Safety
/// `function` is one that [`function`] made, and alive.
pub(crate) unsafe fn object_of(function: *mut TVMFFIObject) -> *mut PyObject {
    // SAFETY: promised by the caller.
    unsafe { embedded::closure_of::<Callback>(function.cast()).0 }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function made above; the rest is the ABI's calling convention.
    let (callback, args) = unsafe { (embedded::closure_of::<Callback>(this), views(args, count)) };
    let outcome = with_lock(|py| {
        let value = run(py, callback, args).map_err(|Raised| exception::take(py))?;
        // SAFETY: promised by the caller.
        unsafe { result.write(value.into_raw()) };
        Ok(())
    });
    match outcome {
        Some(Ok(())) => 0,
        Some(Err(error)) => raise(error),
        None => raise(Error::runtime_error("a Python function was called, but Python has ended in this process")),
    }
}

#[cold]
fn raise(error: Error) -> i32 {
    error.raise();
    -1
}

fn run(py: Py, callback: &Callback, args: &[kernpack_core::AnyView<'_>]) -> PyResult<kernpack_core::Any> {
    const ANY: TypeSchema = TypeSchema::new("Any");
    if args.len() <= INLINE
        && let Some(call) = py.PyObject_Vectorcall()
    {
        // The callee may use the place in front of the arguments for the time of the call.
        let mut items = [const { None::<Owned> }; INLINE + 1];
        // SAFETY: the arguments are valid for the call; an owned reference or none is a pointer or NULL. The rest as below.
        unsafe {
            for (item, arg) in items[1..].iter_mut().zip(args) {
                *item = Some(to_python::view(py, arg.lent().as_raw(), &ANY)?);
            }
            let first = items.as_ptr().cast::<*mut PyObject>().add(1);
            let value = Owned::take(py, call(callback.0, first, args.len() | IN_FRONT, ptr::null_mut()))?;
            return from_python::result(py, value.as_ptr());
        }
    }
    // SAFETY: the arguments are valid for the call; a new tuple of as many places; the callable is kept by the function, which its caller
    // keeps for the call.
    unsafe {
        let tuple = Owned::take(py, py.PyTuple_New(args.len() as isize))?;
        for (index, arg) in args.iter().enumerate() {
            let item = to_python::view(py, arg.lent().as_raw(), &ANY)?;
            py.PyTuple_SetItem(tuple.as_ptr(), index as isize, item.into_ptr());
        }
        let value = Owned::take(py, py.PyObject_CallObject(callback.0, tuple.as_ptr()))?;
        from_python::result(py, value.as_ptr())
    }
}
