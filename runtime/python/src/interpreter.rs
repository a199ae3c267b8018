//! The interpreter that imported this library: whether it is there, and its lock.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::capi::{self, Py};
use crate::object::Raised;

/// Whether Python was told to call at its end.
static TOLD: AtomicBool = AtomicBool::new(false);
/// Set when Python ends: its objects are gone then.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Finds the functions of Python, for the main interpreter of the process: objects are kept in statics, so no other one may use them.
///
/// # Safety
/// This thread runs in a Python interpreter and holds its lock.
pub(crate) unsafe fn enter() -> Result<Py, String> {
    if ENDED.load(Ordering::Acquire) {
        return Err("Python was ended in this process since the library was imported; start another process".to_owned());
    }
    // SAFETY: promised by the caller.
    let py = unsafe { capi::find() }?;
    if let Some(name) = other_implementation(py) {
        return Err(format!("{name} is not supported; CPython 3.9 or newer is needed"));
    }
    check_main(py)?;
    if !TOLD.swap(true, Ordering::AcqRel) {
        // SAFETY: a function that stays loaded, as the library does. Without a free place it is never called, and Python is asked before each
        // use anyway.
        unsafe { py.Py_AtExit(ended) };
    }
    Ok(py)
}

/// The name of an implementation of Python that is not CPython, though it has its functions, such as `graalpy`. Their objects do not lie in memory as
/// is known here.
fn other_implementation(py: Py) -> Option<String> {
    let name = py.import(c"sys").and_then(|sys| {
        // SAFETY: the objects are alive while they are used.
        unsafe {
            let implementation = py.attribute(sys.as_ptr(), c"implementation")?;
            let name = py.attribute(implementation.as_ptr(), c"name")?;
            Ok(py.str_of(name.as_ptr()))
        }
    });
    match name {
        Ok(name) => (name != "cpython").then_some(name),
        Err(Raised) => {
            // SAFETY: an exception is set: a Python that does not say what it is.
            unsafe { py.PyErr_Clear() };
            Some("an unnamed implementation of Python".to_owned())
        }
    }
}

/// Refuses interpreters beside the main one. Python 3.13 and newer call `PyInit_<name>` in the main one for all of them, so this is asked again
/// before a module is filled.
pub(crate) fn check_main(py: Py) -> Result<(), String> {
    // SAFETY: the lock is held, so there is an interpreter, and a main one.
    let is_main = unsafe { py.PyInterpreterState_Get() == py.PyInterpreterState_Main() };
    let text = "this is not the main interpreter of the process, and the classes and functions of the library belong to that one; import it there";
    if is_main { Ok(()) } else { Err(text.to_owned()) }
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

thread_local! {
    /// The interpreter's state of this thread while a function runs that may call back into Python, and how many such calls are on its stack.
    static CALL: Cell<(*mut c_void, u32)> = const { Cell::new((ptr::null_mut(), 0)) };
}

/// A call from Python that may call back: as long as this lives, [`with_lock`] on this thread knows the interpreter's state of the thread and
/// need not ask for it.
pub(crate) struct Call(bool);

impl Call {
    /// Of this thread, which holds the lock.
    pub(crate) fn enter(py: Py) -> Self {
        // SAFETY: the lock is held, so the thread has a state, which lives at least until the call returns to the interpreter.
        let own = unsafe { py.PyThreadState_Get() };
        let (state, depth) = CALL.get();
        // Another interpreter on the same thread has a state of its own; such a call is not remembered.
        let counts = (state.is_null() || state == own) && py.current_state().is_some();
        if counts {
            CALL.set((own, depth + 1));
        }
        Self(counts)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.0 {
            // Counted, not restored: programs with stacks of their own (greenlets) may leave calls in another order than they entered them.
            let (state, depth) = CALL.get();
            CALL.set(if depth > 1 { (state, depth - 1) } else { (ptr::null_mut(), 0) });
        }
    }
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
    /// Gives the lock away again, also when `run` panics.
    struct Taken(Py);
    impl Drop for Taken {
        fn drop(&mut self) {
            // SAFETY: the lock was taken with this thread's state, which comes back.
            unsafe { self.0.PyEval_SaveThread() };
        }
    }
    // SAFETY: the functions are known, and those that are called before the lock is held may be called without it; it is held from there to the
    // end of `run`. A state that is remembered is this thread's own, of a call that has not returned. When it is the current one, the lock is
    // held by this thread: the state of another thread is another one.
    unsafe {
        let py = Py::held();
        let (state, _) = CALL.get();
        if !state.is_null()
            && let Some(current) = py.current_state()
        {
            if current() == state {
                return Some(run(py));
            }
            waiting(|| py.PyEval_RestoreThread(state));
            let _taken = Taken(py);
            return Some(run(py));
        }
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
