//! The primitives that the thread pool waits with: atomics, a futex, and a spin limit. `tests/loom`
//! checks the files above with loom's in their place.

use core::time::Duration;

pub(super) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Maximum number of launches that a pool offers at the same time; at most 64.
pub(super) const SLOTS: usize = 64;

/// Spins for up to `patience` until `is_so` returns true, which reacts faster than a sleep. Yields
/// to threads that wait for this CPU. Returns false if `patience` elapses.
pub(super) fn spin(patience: Duration, is_so: &dyn Fn() -> bool) -> bool {
    const LOOKS_PER_CLOCK: u32 = 32;
    if is_so() {
        return true;
    }
    if patience.is_zero() {
        return false;
    }
    let start = now();
    let mut looks = 0u32;
    loop {
        core::hint::spin_loop();
        if is_so() {
            return true;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_PER_CLOCK) {
            // `patience` is short, so its nanoseconds fit into 64 bits.
            if now().wrapping_sub(start) >= patience.as_nanos() as u64 {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

/// Nanoseconds of a monotonic clock.
#[cfg(not(unix))]
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds of a monotonic clock. A tenth of the code size of `std::time::Instant`.
#[cfg(unix)]
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(not(target_os = "linux"))]
pub(super) use condition::{sleep, wake};
#[cfg(target_os = "linux")]
pub(super) use futex::{sleep, wake};

#[cfg(target_os = "linux")]
mod futex {
    use core::ffi::c_long;
    use core::ptr;
    use core::sync::atomic::AtomicU32;
    use core::time::Duration;

    /// Sleeps until [`wake`] if the word still equals `seen`; may wake up spuriously. Returns false
    /// if `timeout` elapses.
    pub(in super::super) fn sleep(word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> bool {
        // A pool's timeouts are short, so the casts are exact.
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as c_long,
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the word and the time live for the call.
        let status = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, seen, timeout)
        };
        // SAFETY: the address of this thread's `errno`.
        status == 0 || unsafe { *libc::__errno_location() } != libc::ETIMEDOUT
    }

    /// Wakes up to `most` threads that sleep on the word.
    pub(in super::super) fn wake(word: &AtomicU32, most: u32) {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        // SAFETY: only the address of the word is used; nothing is read or written there.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, most) };
    }
}

/// The same for systems without a futex: a few locks with condition variables, which words share by
/// their address.
#[cfg(not(target_os = "linux"))]
mod condition {
    use core::ptr;
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::time::Duration;
    use std::sync::{Condvar, Mutex, PoisonError};

    static PLACES: [(Mutex<()>, Condvar); 64] = [const { (Mutex::new(()), Condvar::new()) }; 64];

    fn place(word: &AtomicU32) -> &'static (Mutex<()>, Condvar) {
        &PLACES[(ptr::from_ref(word).addr() >> 6) % PLACES.len()]
    }

    /// Sleeps until [`wake`] if the word still equals `seen`; may wake up spuriously. Returns false
    /// if `timeout` elapses.
    pub(in super::super) fn sleep(word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> bool {
        let (lock, condition) = place(word);
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Ordering::SeqCst) != seen {
            return true;
        }
        match timeout {
            Some(timeout) => {
                !condition.wait_timeout(held, timeout).unwrap_or_else(PoisonError::into_inner).1.timed_out()
            }
            None => {
                drop(condition.wait(held).unwrap_or_else(PoisonError::into_inner));
                true
            }
        }
    }

    /// Wakes the threads that sleep on the word, and others that share its lock.
    pub(in super::super) fn wake(word: &AtomicU32, _most: u32) {
        let (lock, condition) = place(word);
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        condition.notify_all();
    }
}
