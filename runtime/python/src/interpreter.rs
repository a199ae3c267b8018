//! The interpreter that imported this library: whether it is there, and its lock.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::capi::{self, Py};

/// The interpreter that imported the library first. Its objects are kept in statics, so no other one may use them.
static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Set when Python ends: its objects are gone then.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Finds the functions of Python and claims this library for the interpreter that runs now.
///
/// # Safety
/// This thread runs in a Python interpreter and holds its lock.
pub(crate) unsafe fn enter() -> Result<Py, String> {
    if ENDED.load(Ordering::Acquire) {
        return Err("Python was ended in this process since the library was imported; start another process".to_owned());
    }
    // SAFETY: promised by the caller.
    let py = unsafe { capi::find() }?;
    // SAFETY: the lock is held, so there is an interpreter.
    let own = unsafe { py.PyInterpreterState_Get() };
    match FIRST.compare_exchange(ptr::null_mut(), own, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: a function that stays loaded, as the library does. Without a free place it is never called, and Python is asked
            // before each use anyway.
            unsafe { py.Py_AtExit(ended) };
            Ok(py)
        }
        Err(first) if first == own => Ok(py),
        Err(_) => Err("another interpreter of this process has imported the library, and its classes and functions belong to that one; \
                       import it in one interpreter only"
            .to_owned()),
    }
}

extern "C" fn ended() {
    ENDED.store(true, Ordering::Release);
}

/// Waits for the interpreter's lock. A thread that Python would end, because Python itself has ended meanwhile, stops here forever instead:
/// ending it would unwind code of other languages.
fn waiting<R>(wait: impl FnOnce() -> R) -> R {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            loop {
                std::thread::park();
            }
        }
    }
    let stop = Stop;
    let result = wait();
    core::mem::forget(stop);
    result
}

/// Runs code with the interpreter's lock, from any thread; `None` when there is no interpreter, or it has ended.
pub(crate) fn with_lock<R>(run: impl FnOnce(Py) -> R) -> Option<R> {
    /// Gives the lock back, also when `run` panics.
    struct Held(Py, i32);
    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: what `PyGILState_Ensure` gave this thread, once.
            unsafe { self.0.PyGILState_Release(self.1) }
        }
    }
    if !capi::is_found() || ENDED.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: the functions are known, and these two may be called without the lock, which is held from here to the end of `run`.
    unsafe {
        let py = Py::held();
        if py.Py_IsInitialized() == 0 {
            return None;
        }
        let _held = Held(py, waiting(|| py.PyGILState_Ensure()));
        Some(run(py))
    }
}

/// Runs code that needs no Python without the interpreter's lock, so that other threads of Python run meanwhile.
pub(crate) fn without_lock<R>(py: Py, run: impl FnOnce() -> R) -> R {
    /// Takes the lock again, also when `run` panics.
    struct Released(Py, *mut c_void);
    impl Drop for Released {
        fn drop(&mut self) {
            // SAFETY: what `PyEval_SaveThread` gave this thread, once.
            unsafe { waiting(|| self.0.PyEval_RestoreThread(self.1)) }
        }
    }
    // SAFETY: the lock is held, as the token says; until it is taken again nothing of Python is used.
    let _released = Released(py, unsafe { py.PyEval_SaveThread() });
    run()
}
