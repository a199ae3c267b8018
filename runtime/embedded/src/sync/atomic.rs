//! The atomics and the locks of the tables. `tests/loom` puts loom's in their place for the files that it checks.

pub use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks a table. What a panic left behind is as good as before: changes become visible in one step, the last one.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    use std::sync::{PoisonError, TryLockError};

    // The thread sanitizer sees what is compiled with it, which is not the part of the standard library that waits.
    while cfg!(kernpack_tsan) {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
