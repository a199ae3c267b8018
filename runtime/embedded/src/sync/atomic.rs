//! The atomics and the locks of the tables. `tests/loom` replaces them with loom's for the files
//! that it checks.

pub use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks a table, even after a panic: the table is still consistent, because changes become visible
/// in one step, the last one.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    use std::sync::{PoisonError, TryLockError};

    // The thread sanitizer sees only code that is compiled with it, which the waiting part of the
    // standard library is not.
    while cfg!(kernpack_tsan) {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
