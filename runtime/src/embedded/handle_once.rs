//! Handles that generated code initializes at first use.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use super::failure::Failure;

/// One lock for all handles.
static LOCK: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread already holds the lock: initializing one handle may need another.
    static LOCKED: Cell<bool> = const { Cell::new(false) };
}

struct Locked;

impl Drop for Locked {
    fn drop(&mut self) {
        LOCKED.set(false);
    }
}

/// Initializes `*handle` by `init` unless it is already; the result is what `init` returned, 0 for success.
///
/// # Errors
/// `RuntimeError` when `init` succeeds without a handle.
///
/// # Safety
/// `handle` is valid and only accessed atomically; `init` writes a handle through its argument or fails.
pub unsafe fn init_once(
    handle: *mut *mut c_void,
    init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
) -> Result<c_int, Failure> {
    // SAFETY: promised by the caller.
    let handle = unsafe { AtomicPtr::from_ptr(handle) };
    if !handle.load(Ordering::Acquire).is_null() {
        return Ok(0);
    }
    let _guards = if LOCKED.get() {
        None
    } else {
        let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        LOCKED.set(true);
        // Dropped in this order: the mark first, then the lock.
        Some((Locked, guard))
    };
    if !handle.load(Ordering::Acquire).is_null() {
        return Ok(0);
    }
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

/// Clears `*handle` and destroys what it was, if anything; the result is what `deinit` returned.
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
