//! Access to lists and dicts, which change while others refer to them: one thread at a time, for
//! one short step.
//!
//! The lock is a bit of the object's reference counts (`sync/ref_count.rs`), so that it is the same
//! for all libraries of this project in a process, whichever implementation serves it, and needs no
//! memory. While a thread holds it, it does not call foreign code: no destructors, no hooks, no
//! conversions. C++ code and the stock library do not take the lock: by the ABI's contract, they
//! must ensure themselves that a list or dict which they change is not in use on another thread.

use crate::abi::{TVMFFIObject, type_index};

use super::object::counts;
use crate::sync::ref_count;

/// Attempts before a waiting thread yields.
const SPINS: u32 = 64;
/// Attempts before a waiting thread sleeps: the holder may have a lower priority.
const YIELDS: u32 = 4096;

/// Exclusive access to a list or dict among the code of this project. It has no effect for other
/// containers, which do not change.
pub struct Access {
    /// NULL for a container that does not change.
    object: *mut TVMFFIObject,
}

impl Access {
    /// Waits for access to a container.
    ///
    /// # Safety
    /// `object` is a live object, stays alive as long as the access lasts, and this thread does not
    /// have access to it yet. Until the access ends, the caller runs no foreign code.
    #[inline]
    pub unsafe fn new(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            if !matches!((*object).type_index, type_index::LIST | type_index::DICT) {
                return Self { object: core::ptr::null_mut() };
            }
            if !ref_count::try_lock(counts(object)) {
                wait(object);
            }
        }
        Self { object }
    }
}

#[cold]
#[inline]
unsafe fn wait(object: *mut TVMFFIObject) {
    // SAFETY: the caller of `Access::new` keeps the object alive.
    let counts = unsafe { counts(object) };
    let mut attempts: u32 = 0;
    while ref_count::is_locked(counts) || !ref_count::try_lock(counts) {
        attempts = attempts.saturating_add(1);
        match attempts {
            ..SPINS => core::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(core::time::Duration::from_micros(50)),
        }
    }
}

impl Drop for Access {
    #[inline]
    fn drop(&mut self) {
        if !self.object.is_null() {
            // SAFETY: the object is alive, as promised to `new`, and this thread has its lock.
            ref_count::unlock(unsafe { counts(self.object) });
        }
    }
}
