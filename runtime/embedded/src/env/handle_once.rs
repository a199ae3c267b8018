//! Handles that generated code initializes at first use.
//!
//! Initializing one handle may need another, on the same thread or while other threads initialize
//! more, so no lock is held during it: a thread waits only for a handle that it needs and that
//! another thread is initializing.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use std::sync::{Condvar, PoisonError};

use crate::cells::failure::Failure;
use crate::sync::atomic::{AtomicPtr, Mutex, MutexGuard, Ordering, lock};

/// Handles that are being initialized.
struct Progress {
    /// The thread that initializes each handle.
    running: Vec<(Thread, Handle)>,
    /// The handle that each thread waits for.
    waiting: Vec<(Thread, Handle)>,
}

/// The address of a handle.
type Handle = usize;
/// The address of a thread-local variable, which identifies the thread.
type Thread = usize;

static PROGRESS: Mutex<Progress> = Mutex::new(Progress { running: Vec::new(), waiting: Vec::new() });
/// Notified when an initialization ends.
static ENDED: Condvar = Condvar::new();

fn progress() -> MutexGuard<'static, Progress> {
    lock(&PROGRESS)
}

fn this_thread() -> Thread {
    thread_local! {
        static MARK: Cell<u8> = const { Cell::new(0) };
    }
    MARK.with(|mark| mark.as_ptr().addr())
}

/// Waits until an initialization ends, or for a moment.
fn wait(progress: MutexGuard<'static, Progress>) {
    // The thread sanitizer does not see that the standard library unlocks while it waits.
    if cfg!(kernpack_tsan) {
        drop(progress);
        std::thread::yield_now();
    } else {
        drop(ENDED.wait(progress).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Progress {
    /// The thread that initializes a handle.
    fn owner(&self, handle: Handle) -> Option<Thread> {
        self.running.iter().find(|running| running.1 == handle).map(|running| running.0)
    }

    /// Returns true if `thread` is `other`, or waits for it, directly or through other threads.
    fn depends_on(&self, mut thread: Thread, other: Thread) -> bool {
        while thread != other {
            let Some((_, handle)) = self.waiting.iter().find(|waiting| waiting.0 == thread) else { return false };
            // A handle that has just been finished has waiting threads, but no owner.
            let Some(owner) = self.owner(*handle) else { return false };
            thread = owner;
        }
        true
    }
}

/// Ends an initialization when it is dropped.
struct Running(Handle);

impl Drop for Running {
    fn drop(&mut self) {
        progress().running.retain(|running| running.1 != self.0);
        ENDED.notify_all();
    }
}

/// Initializes `*handle` by `init` unless it is already initialized; returns the result of `init`,
/// 0 for success.
///
/// # Errors
/// `RuntimeError` when `init` succeeds without a handle, or would have to wait for itself.
///
/// # Safety
/// `handle` is valid and only accessed atomically; `init` writes a handle through its argument or
/// fails.
pub unsafe fn init_once(
    handle: *mut *mut c_void,
    init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
) -> Result<c_int, Failure> {
    // SAFETY: promised by the caller.
    unsafe { if is_initialized(handle) { Ok(0) } else { initialize(AtomicPtr::from_ptr(handle), init) } }
}

/// Returns true if the handle is already initialized.
///
/// # Safety
/// `handle` is valid and only accessed atomically.
#[inline]
pub unsafe fn is_initialized(handle: *mut *mut c_void) -> bool {
    // SAFETY: promised by the caller.
    !unsafe { AtomicPtr::from_ptr(handle) }.load(Ordering::Acquire).is_null()
}

/// # Safety
/// As for [`init_once`].
#[cold]
unsafe fn initialize(
    handle: &AtomicPtr<c_void>,
    init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
) -> Result<c_int, Failure> {
    let (thread, address) = (this_thread(), handle.as_ptr().addr());
    let mut progress = progress();
    // Under the lock: the thread that initialized the handle stored it before it removed itself
    // from the list.
    while handle.load(Ordering::Acquire).is_null() {
        let Some(owner) = progress.owner(address) else {
            progress.running.push((thread, address));
            drop(progress);
            let _running = Running(address);
            // SAFETY: promised by the caller.
            return unsafe { run(handle, init) };
        };
        if progress.depends_on(owner, thread) {
            return Err(Failure::runtime("initializing a handle needs that the same handle is initialized already"));
        }
        progress.waiting.push((thread, address));
        wait(progress);
        progress = lock(&PROGRESS);
        progress.waiting.retain(|waiting| waiting.0 != thread);
    }
    Ok(0)
}

/// # Safety
/// As for [`init_once`].
unsafe fn run(
    handle: &AtomicPtr<c_void>,
    init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
) -> Result<c_int, Failure> {
    let mut result = core::ptr::null_mut();
    // SAFETY: promised by the caller.
    let status = unsafe { init(&raw mut result) };
    if status != 0 {
        return Ok(status);
    }
    if result.is_null() {
        return Err(Failure::runtime("init_func must return a non-NULL handle"));
    }
    handle.store(result, Ordering::Release);
    Ok(0)
}

/// Clears `*handle` and destroys the old handle, if any; returns the result of `deinit`.
///
/// # Safety
/// `handle` is valid and only accessed atomically; `deinit` destroys such handles.
pub unsafe fn deinit_once(handle: *mut *mut c_void, deinit: unsafe extern "C" fn(*mut c_void) -> c_int) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        let old = AtomicPtr::from_ptr(handle).swap(core::ptr::null_mut(), Ordering::AcqRel);
        if old.is_null() { 0 } else { deinit(old) }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicI32;

    use super::*;

    static CALLS: AtomicI32 = AtomicI32::new(0);
    unsafe extern "C" fn init(result: *mut *mut c_void) -> c_int {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the argument is writable. The inner handle shows that initializing may nest.
        unsafe {
            let mut inner = core::ptr::null_mut();
            assert_eq!(init_once(&raw mut inner, fail).unwrap(), 7);
            result.write(core::ptr::without_provenance_mut(8));
        }
        0
    }
    unsafe extern "C" fn fail(_: *mut *mut c_void) -> c_int {
        7
    }
    unsafe extern "C" fn nothing(_: *mut *mut c_void) -> c_int {
        0
    }
    unsafe extern "C" fn deinit(handle: *mut c_void) -> c_int {
        assert_eq!(handle.addr(), 8);
        5
    }

    static KNOT: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
    static MEET: std::sync::Barrier = std::sync::Barrier::new(2);
    /// Initializes one handle of two, which needs the other one, on two threads at the same time.
    fn tie<const MINE: usize>(result: *mut *mut c_void, meet: bool) -> c_int {
        extern "C" fn other<const OTHER: usize>(result: *mut *mut c_void) -> c_int {
            tie::<OTHER>(result, false)
        }
        if meet {
            MEET.wait();
        }
        // SAFETY: the handles are accessed atomically.
        let got = unsafe {
            match MINE {
                0 => init_once(KNOT[1].as_ptr(), other::<1>),
                _ => init_once(KNOT[0].as_ptr(), other::<0>),
            }
        };
        let Ok(status) = got else { return 3 };
        // SAFETY: the argument is writable.
        unsafe { result.write(core::ptr::without_provenance_mut(16)) };
        status
    }
    unsafe extern "C" fn tie_first(result: *mut *mut c_void) -> c_int {
        tie::<0>(result, true)
    }
    unsafe extern "C" fn tie_second(result: *mut *mut c_void) -> c_int {
        tie::<1>(result, true)
    }

    #[test]
    fn handles_that_need_each_other_fail_instead_of_waiting_for_ever() {
        // SAFETY: the handles are accessed atomically.
        let [first, second] = unsafe {
            let first = std::thread::spawn(|| init_once(KNOT[0].as_ptr(), tie_first).unwrap());
            let second = std::thread::spawn(|| init_once(KNOT[1].as_ptr(), tie_second).unwrap());
            [first.join().unwrap(), second.join().unwrap()]
        };
        assert!(first == 3 || second == 3, "{first} {second}");
        let progress = progress();
        assert!(
            !progress
                .running
                .iter()
                .chain(&progress.waiting)
                .any(|(_, handle)| { KNOT.iter().any(|knot| knot.as_ptr().addr() == *handle) })
        );
    }

    #[test]
    fn initialized_once_by_many_threads() {
        let handle = AtomicPtr::new(core::ptr::null_mut::<c_void>());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                // SAFETY: the handle is accessed atomically.
                scope.spawn(|| assert_eq!(unsafe { init_once(handle.as_ptr(), init) }.unwrap(), 0));
            }
        });
        assert_eq!((CALLS.load(Ordering::Relaxed), handle.load(Ordering::Relaxed).addr()), (1, 8));
        // SAFETY: as above.
        unsafe {
            assert_eq!(deinit_once(handle.as_ptr(), deinit), 5);
            assert_eq!(deinit_once(handle.as_ptr(), deinit), 0);
            assert!(init_once(handle.as_ptr(), nothing).unwrap_err().message().contains("non-NULL"));
        }
    }
}
