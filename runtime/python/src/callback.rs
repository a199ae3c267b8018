//! Python callables as functions of the ABI: they may be kept, called from any thread, and are
//! converted back to the original callables.

use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{SafeCall, TVMFFIAny, TVMFFIObject, type_index};
use kernpack_core::function::views;
use kernpack_core::value::TypeSchema;
use kernpack_core::{Any, AnyView, Error, embedded};

use crate::capi::{Py, PyObject};
use crate::exception;
use crate::freelist::Pool;
use crate::from_python;
use crate::interpreter::{Caller, Lock, with_lock};
use crate::object::{Owned, PyResult, Raised, release};
use crate::to_python;
use crate::wanted::Wanted;

/// The number of arguments that need no tuple.
const INLINE: usize = 6;
/// `PY_VECTORCALL_ARGUMENTS_OFFSET`.
const IN_FRONT: usize = 1 << (usize::BITS - 1);

/// The Python callable of a function, which owns a reference to it, except while [`Lent`] lends it.
/// The lock is taken for each use.
struct Callback {
    object: AtomicPtr<PyObject>,
    /// The call that lends it.
    caller: Caller,
}

impl Drop for Callback {
    fn drop(&mut self) {
        // After Python has ended, its objects are gone.
        with_lock(|py| {
            // SAFETY: the reference is this value's.
            unsafe { py.Py_DecRef(*self.object.get_mut()) }
        });
    }
}

/// A function object that calls a Python object, which an argument of a call keeps alive: no
/// reference is counted for it, unless the function is kept longer than the call. Functions that
/// were not kept are reused.
pub(crate) struct Lent(ptr::NonNull<TVMFFIObject>);

/// Functions that were lent, and that nothing refers to any more.
static UNUSED: Pool<TVMFFIObject> = Pool::new();

impl Lent {
    /// Lends a callable to the running call.
    ///
    /// # Safety
    /// `object` is alive for as long as the result, which is dropped on this thread, with the lock
    /// held.
    pub(crate) unsafe fn new(py: Py, object: *mut PyObject) -> Self {
        let function = UNUSED.take(py).unwrap_or_else(|| {
            let callback = Callback { object: AtomicPtr::new(ptr::null_mut()), caller: Caller::none() };
            embedded::new_function(call, callback)
        });
        // SAFETY: a function made just now, or once; new objects are not at address 0.
        unsafe {
            let callback = embedded::closure_of::<Callback>(function.cast());
            callback.object.store(object, Ordering::Relaxed);
            callback.caller.set(py);
            Self(ptr::NonNull::new_unchecked(function))
        }
    }

    /// The function, as an argument.
    pub(crate) fn view(&self) -> TVMFFIAny {
        TVMFFIAny::pointer(type_index::FUNCTION, self.0.as_ptr().cast())
    }

    /// Converts to a value, which owns the callable from now on.
    pub(crate) fn into_value(self, py: Py) -> Any {
        let function = ManuallyDrop::new(self).0.as_ptr();
        // SAFETY: a function of this file, whose callable is still alive; the reference is
        // transferred to the value.
        unsafe {
            let callback = embedded::closure_of::<Callback>(function.cast());
            callback.caller.clear();
            py.Py_IncRef(callback.object.load(Ordering::Relaxed));
            Any::from_object(function)
        }
    }
}

impl Drop for Lent {
    #[inline]
    fn drop(&mut self) {
        let function = self.0.as_ptr();
        // SAFETY: a function of this file, of which one reference is this value's, and the lock is
        // held. One without other references is used by no other code, now or later.
        unsafe {
            let py = Py::held();
            let callback = embedded::closure_of::<Callback>(function.cast());
            callback.caller.clear();
            if embedded::is_unique(function) && UNUSED.give(py, function) {
                return;
            }
            // It is kept elsewhere, or there is no room: from now on it owns the callable, which is
            // alive until here.
            py.Py_IncRef(callback.object.load(Ordering::Relaxed));
            embedded::dec_ref(function);
        }
    }
}

/// Returns true if functions with this entry point are created from Python objects, by this
/// library.
pub(crate) fn is_entry_point(entry_point: SafeCall) -> bool {
    ptr::fn_addr_eq(entry_point, call as SafeCall)
}

/// The Python object of such a function, borrowed from it.
///
/// # Safety
/// `function` is one that [`Lent`] made, and alive.
pub(crate) unsafe fn object_of(function: *mut TVMFFIObject) -> *mut PyObject {
    // SAFETY: promised by the caller.
    unsafe { embedded::closure_of::<Callback>(function.cast()).object.load(Ordering::Relaxed) }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function made above; the rest is the ABI's calling convention.
    let (callback, args) = unsafe { (embedded::closure_of::<Callback>(this), views(args, count)) };
    let Some(lock) = Lock::take(&callback.caller) else {
        return raise(Error::runtime_error("a Python function was called, but Python has ended in this process"));
    };
    let py = lock.py();
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
    const ANY: TypeSchema = TypeSchema::new("Any");
    // SAFETY: the arguments are valid for the call; a new tuple with that many places; the rest is
    // promised by the caller.
    unsafe {
        let value = if args.len() <= INLINE
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
            Owned::take(py, call(callable, first, args.len() | IN_FRONT, ptr::null_mut()))?
        } else {
            let tuple = Owned::take(py, py.PyTuple_New(args.len() as isize))?;
            for (index, arg) in args.iter().enumerate() {
                let item = to_python::view(py, arg.lent().as_raw(), &ANY)?;
                py.put(&tuple, index, item)?;
            }
            Owned::take(py, py.PyObject_CallObject(callable, tuple.as_ptr()))?
        };
        // Simple values own nothing, not even a reference to their origin.
        if !from_python::simple(py, value.as_ptr(), &Wanted::ANY, result) {
            result.write(from_python::result(py, value.as_ptr())?.into_raw());
        }
        Ok(())
    }
}
