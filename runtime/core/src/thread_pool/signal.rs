//! Waiting for other threads without a lock: a thread checks a condition, then sleeps until it is
//! woken.

use core::time::Duration;

use super::sync::{AtomicU32, Ordering, fence, sleep, spin, wake};

/// A counter that advances when something happened, and the threads that sleep until it does.
pub(super) struct Signal {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self { count: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Returns the counter. A thread that sees it advanced also sees everything that was done
    /// before.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Advances the counter and wakes all sleeping threads.
    pub(super) fn advance(&self) {
        self.count.fetch_add(1, Ordering::Release);
        // Either this thread sees the sleeper, or the sleeper sees the new counter.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            wake(&self.count, u32::MAX);
        }
    }

    /// Wakes up to `most` sleeping threads after a change that their condition depends on. Returns
    /// whether any were sleeping; the counter advances only then.
    pub(super) fn call(&self, most: u32) -> bool {
        // Either this thread sees the sleeper, or the sleeper sees the change.
        fence(Ordering::SeqCst);
        let is_anyone_there = self.sleepers.load(Ordering::Relaxed) > 0;
        if is_anyone_there {
            self.count.fetch_add(1, Ordering::Release);
            wake(&self.count, most);
        }
        is_anyone_there
    }

    /// Waits until `is_so` returns true: spins for `patience`, then sleeps. Returns false if
    /// `timeout`, which limits the sleep, elapses first.
    pub(super) fn wait(&self, patience: Duration, timeout: Option<Duration>, is_so: &dyn Fn() -> bool) -> bool {
        if spin(patience, is_so) {
            return true;
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let mut in_time = true;
        let outcome = loop {
            // The counter is read first: a change after the check advances it.
            let seen = self.count();
            fence(Ordering::SeqCst);
            if is_so() {
                break true;
            }
            if !in_time {
                break false;
            }
            in_time = sleep(&self.count, seen, timeout);
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}
