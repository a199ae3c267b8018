//! Python callables as functions of the ABI, which are lent to a call or kept. They are converted
//! back to the original callables.

use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use kernpack_core::abi::{TVMFFIAny, TVMFFIFunctionCell, TVMFFIObject, type_index};
use kernpack_core::{Any, embedded};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::freelist::Pool;
use crate::cpython::interpreter::{Caller, with_lock};
use crate::cpython::state::State;

/// The Python callable of a function, which owns a reference to it, except while [`Lent`] lends it.
/// The lock is taken for each use.
pub(super) struct Callback {
    pub(super) object: AtomicPtr<PyObject>,
    /// The call that lends it.
    pub(super) caller: Caller,
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
            embedded::new_function(State::get(py).higher.call_of_callable, callback)
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

/// The Python object from which this library created a function, borrowed from the function.
///
/// # Safety
/// `function` is a live function object.
pub(crate) unsafe fn python_callable(py: Py, function: *mut TVMFFIObject) -> Option<*mut PyObject> {
    // SAFETY: promised by the caller; the entry point determines the closure's type.
    unsafe {
        let entry_point = embedded::body::<TVMFFIFunctionCell>(function).safe_call?;
        let is_own = ptr::fn_addr_eq(entry_point, State::get(py).higher.call_of_callable);
        is_own.then(|| embedded::closure_of::<Callback>(function.cast()).object.load(Ordering::Relaxed))
    }
}
