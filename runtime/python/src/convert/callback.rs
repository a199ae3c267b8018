//! Calls of Python callables that are functions of the ABI, from any thread.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering;

use kernpack_core::abi::TVMFFIAny;
use kernpack_core::function::views;
use kernpack_core::value::TypeSchema;
use kernpack_core::{AnyView, Error, embedded};

use super::lent::Callback;
use super::{from_python, to_python};
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::interpreter::Lock;
use crate::cpython::object::{Owned, PyResult, Raised, release};
use crate::signature::wanted::Wanted;

const ANY: TypeSchema = TypeSchema::new("Any");
/// The number of arguments that need no tuple.
const INLINE: usize = 6;
/// `PY_VECTORCALL_ARGUMENTS_OFFSET`.
const IN_FRONT: usize = 1 << (usize::BITS - 1);

/// The entry point of all functions that call Python objects.
pub(crate) unsafe extern "C" fn call(
    this: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the handle is a function that `lent` made; the rest is the ABI's calling convention.
    let (callback, args) = unsafe { (embedded::closure_of::<Callback>(this), views(args, count)) };
    let Some(lock) = Lock::take(&callback.caller) else {
        return raise(Error::runtime_error("a Python function was called, but Python has ended in this process"));
    };
    let py = lock.py();
    let _aside = exception::Aside::new(py);
    // SAFETY: the callable is kept by the function, which its caller keeps for the call; the result
    // is writable.
    match unsafe { run(py, callback.object.load(Ordering::Relaxed), args, result) } {
        Ok(()) => 0,
        Err(Raised) => raise(exception::take(py)),
    }
}

#[cold]
fn raise(error: Error) -> i32 {
    error.raise();
    -1
}

/// Python objects that are created for a call, with a free slot in front that the callee may use.
struct Items {
    objects: [MaybeUninit<*mut PyObject>; INLINE + 1],
    count: usize,
}

impl Items {
    #[inline]
    fn push(&mut self, item: Owned) {
        self.count += 1;
        self.objects[self.count].write(item.into_ptr());
    }
}

impl Drop for Items {
    #[inline]
    fn drop(&mut self) {
        for item in &self.objects[1..=self.count] {
            // SAFETY: so many were written, each with a reference of its own; the lock is held.
            unsafe { release(item.assume_init()) }
        }
    }
}

/// Calls the callable, and writes its result as an owned value.
///
/// # Safety
/// The callable is alive for the call, and `result` is writable.
unsafe fn run(py: Py, callable: *mut PyObject, args: &[AnyView<'_>], result: *mut TVMFFIAny) -> PyResult<()> {
    // SAFETY: promised by the caller. Simple values own nothing, not even a reference to their
    // origin.
    unsafe {
        let value = called(py, callable, args)?;
        if !from_python::simple(py, value.as_ptr(), &Wanted::ANY, result) {
            result.write(from_python::result(py, value.as_ptr())?.into_raw());
        }
        Ok(())
    }
}

/// Calls a Python object with values as positional arguments.
///
/// # Safety
/// The callable is alive for the call.
#[inline]
pub(crate) unsafe fn called(py: Py, callable: *mut PyObject, args: &[AnyView<'_>]) -> PyResult<Owned> {
    // SAFETY: the arguments are valid for the call; the rest is promised by the caller.
    unsafe {
        if args.len() <= INLINE
            && let Some(call) = py.PyObject_Vectorcall()
        {
            let mut items = Items { objects: [const { MaybeUninit::uninit() }; INLINE + 1], count: 0 };
            for arg in args {
                // Read in place: a copy would have to wait for the caller's stores.
                items.push(match arg.is_rvalue_ref() {
                    true => to_python::view(py, arg.lent().as_raw(), &ANY)?,
                    false => to_python::view(py, arg.as_raw(), &ANY)?,
                });
            }
            let first = items.objects.as_ptr().cast::<*mut PyObject>().add(1);
            Owned::take(py, call(callable, first, args.len() | IN_FRONT, ptr::null_mut()))
        } else {
            let tuple = tuple(py, args)?;
            Owned::take(py, py.PyObject_CallObject(callable, tuple.as_ptr()))
        }
    }
}

/// A tuple of Python objects for values.
pub(crate) fn tuple(py: Py, values: &[AnyView<'_>]) -> PyResult<Owned> {
    // SAFETY: the values are valid for the call; a new tuple with that many places.
    unsafe {
        let tuple = Owned::take(py, py.PyTuple_New(values.len() as isize))?;
        for (index, value) in values.iter().enumerate() {
            let item = to_python::view(py, value.lent().as_raw(), &ANY)?;
            py.put(&tuple, index, item)?;
        }
        Ok(tuple)
    }
}
