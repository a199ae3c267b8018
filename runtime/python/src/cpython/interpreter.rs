//! The interpreter that imported this library: whether it exists, and its lock.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::capi::{self, Py};
use super::object::Raised;

/// True if the function to call at Python's end is registered.
static TOLD: AtomicBool = AtomicBool::new(false);
/// True when Python has ended: its objects are then gone.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Looks up the functions of Python, for the main interpreter of the process: objects are kept in
/// statics, so no other interpreter may use them.
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
        // SAFETY: a function that stays loaded, as the library does. Without a free place it is
        // never called, and the state of Python is checked before each use anyway.
        unsafe { py.Py_AtExit(ended) };
    }
    Ok(py)
}

/// The name of an implementation of Python other than CPython that has its functions, such as
/// `graalpy`. The memory layout of its objects is unknown.
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
            // SAFETY: an exception is set: the Python implementation does not have a name.
            unsafe { py.PyErr_Clear() };
            Some("an unnamed implementation of Python".to_owned())
        }
    }
}

/// Rejects interpreters other than the main one. Python 3.13 and newer call `PyInit_<name>` in the
/// main one for all of them, so this is checked again before a module is filled.
pub(crate) fn check_main(py: Py) -> Result<(), String> {
    // SAFETY: the lock is held, so there is an interpreter, and a main one.
    let is_main = unsafe { py.PyInterpreterState_Get() == py.PyInterpreterState_Main() };
    let text = "this is not the main interpreter of the process, and the classes and functions of the library belong to that one; import it there";
    if is_main { Ok(()) } else { Err(text.to_owned()) }
}

extern "C" fn ended() {
    ENDED.store(true, Ordering::Release);
}

/// Waits for the interpreter's lock. A thread that Python would end, because Python itself has
/// ended meanwhile, stops here forever instead: ending it would unwind code of other languages.
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
    /// The interpreter's state of this thread while a function runs that may call back into Python,
    /// and the number of such calls on its stack.
    static CALL: Cell<(*mut c_void, u32)> = const { Cell::new((ptr::null_mut(), 0)) };
}

/// A call from Python that may call back: as long as this lives, [`Lock`] on this thread knows the
/// thread's interpreter state and need not look it up.
pub(crate) struct Call(bool);

impl Call {
    /// Enters a call on this thread, which holds the lock.
    pub(crate) fn enter(py: Py) -> Self {
        // SAFETY: the lock is held, so the thread has a state, which lives at least until the call
        // returns to the interpreter.
        let own = unsafe { py.PyThreadState_Get() };
        let (state, depth) = CALL.get();
        // Another interpreter on the same thread has its own state; such a call is not recorded.
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
            // Counted, not restored: programs with their own stacks (greenlets) may leave calls in
            // another order than they entered them.
            let (state, depth) = CALL.get();
            CALL.set(if depth > 1 { (state, depth - 1) } else { (ptr::null_mut(), 0) });
        }
    }
}

/// The Python thread that waits for a call to return, if any.
pub(crate) struct Caller {
    thread: AtomicUsize,
    state: AtomicPtr<c_void>,
}

impl Caller {
    /// No thread.
    pub(crate) const fn none() -> Self {
        Self { thread: AtomicUsize::new(0), state: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Sets this thread, which holds the lock, as the waiting one until [`Caller::clear`].
    #[inline]
    pub(crate) fn set(&self, py: Py) {
        // SAFETY: the lock is held, so the thread has a state, which lives at least until the call
        // returns to the interpreter.
        self.state.store(unsafe { py.PyThreadState_Get() }, Ordering::Relaxed);
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    /// Clears the waiting thread.
    #[inline]
    pub(crate) fn clear(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// The interpreter state of this thread, if it is the waiting one.
    #[inline]
    fn state_here(&self) -> *mut c_void {
        // Another thread finds its own number only if it stored that itself, and then also the
        // state that it stored before.
        match self.thread.load(Ordering::Relaxed) == this_thread() {
            true => self.state.load(Ordering::Relaxed),
            false => ptr::null_mut(),
        }
    }
}

/// A number that no other thread has as long as this one lives; never 0.
#[inline]
fn this_thread() -> usize {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let pointer: usize;
        // SAFETY: the thread pointer, which every thread has: it is read, and nothing else happens.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
        }
        pointer
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    CALL.with(|call| ptr::from_ref(call).addr())
}

/// The interpreter's lock, held as long as this lives.
pub(crate) struct Lock {
    py: Py,
    back: Back,
}

/// The way in which the lock is released.
enum Back {
    /// This thread has held it before.
    No,
    /// Its state was current before the lock was released, and is restored.
    Save,
    /// The state that `PyGILState_Ensure` returned for this thread.
    State(i32),
}

impl Lock {
    /// Takes the lock, from any thread; `None` if there is no interpreter, or it has ended.
    /// `caller` may be this thread's.
    #[inline]
    pub(crate) fn take(caller: &Caller) -> Option<Self> {
        let state = caller.state_here();
        // SAFETY: a thread waits for the call, so the functions are known.
        let py = unsafe { Py::held() };
        // SAFETY: the function may be called without the lock. When the state of this thread is the
        // current one, this thread holds the lock: the state of another thread is another one.
        if !state.is_null() && py.current_state().is_some_and(|current| unsafe { current() } == state) {
            return Some(Self { py, back: Back::No });
        }
        Self::wait(state)
    }

    /// Takes the lock, from any thread, without knowing a caller; quickly if this thread holds it.
    pub(crate) fn of_any() -> Option<Self> {
        if !capi::is_found() || ENDED.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the functions are known, and both may be called without the lock. If the state of
        // this thread is the current one, this thread holds the lock.
        unsafe {
            let py = Py::held();
            if let Some(current) = py.current_state() {
                let state = current();
                if !state.is_null() && state == py.PyGILState_GetThisThreadState() {
                    return Some(Self { py, back: Back::No });
                }
            }
        }
        Self::wait(ptr::null_mut())
    }

    /// Waits for the lock.
    #[inline(never)]
    fn wait(mut state: *mut c_void) -> Option<Self> {
        if !capi::is_found() || ENDED.load(Ordering::Acquire) {
            return None;
        }
        if state.is_null() {
            state = CALL.get().0;
        }
        // SAFETY: the functions are known, and those that are called before the lock is held may be
        // called without it; it is held from there on. A state that is remembered is this thread's
        // own, of a call that has not returned.
        unsafe {
            let py = Py::held();
            if !state.is_null()
                && let Some(current) = py.current_state()
            {
                if current() == state {
                    return Some(Self { py, back: Back::No });
                }
                waiting(|| py.PyEval_RestoreThread(state));
                return Some(Self { py, back: Back::Save });
            }
            if py.Py_IsInitialized() == 0 {
                return None;
            }
            Some(Self { py, back: Back::State(waiting(|| py.PyGILState_Ensure())) })
        }
    }

    /// The token of this thread.
    #[inline]
    pub(crate) fn py(&self) -> Py {
        self.py
    }
}

impl Drop for Lock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the lock was taken in this way, and is given back once.
        unsafe {
            match self.back {
                Back::No => {}
                Back::Save => {
                    self.py.PyEval_SaveThread();
                }
                Back::State(state) => self.py.PyGILState_Release(state),
            }
        }
    }
}

/// Runs code with the interpreter's lock, from any thread; `None` if there is no interpreter, or it
/// has ended.
pub(crate) fn with_lock<R>(run: impl FnOnce(Py) -> R) -> Option<R> {
    let lock = Lock::of_any()?;
    Some(run(lock.py()))
}

/// Runs code that does not use Python without the interpreter's lock, so that other threads of
/// Python run meanwhile.
pub(crate) fn without_lock<R>(py: Py, run: impl FnOnce() -> R) -> R {
    /// Takes the lock again, even if `run` panics.
    struct Released(Py, *mut c_void);
    impl Drop for Released {
        fn drop(&mut self) {
            // SAFETY: the result of `PyEval_SaveThread` on this thread, used once.
            unsafe { waiting(|| self.0.PyEval_RestoreThread(self.1)) }
        }
    }
    // SAFETY: the lock is held, as the token proves; Python is not used until the lock is taken
    // again.
    let _released = Released(py, unsafe { py.PyEval_SaveThread() });
    run()
}
