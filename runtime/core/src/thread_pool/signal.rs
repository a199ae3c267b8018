//! Waiting for other threads without a lock: a thread checks a condition, then sleeps until it is
//! woken.

use core::time::Duration;

use super::sync::{AtomicU32, Ordering, fence, sleep, spin, wake};

/// A count that moves when something happened, and the threads that sleep until it does.
pub(super) struct Signal {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self { count: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// The count. A thread that sees it moved sees what was done before.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Moves the count and wakes all sleeping threads.
    pub(super) fn advance(&self) {
        self.count.fetch_add(1, Ordering::Release);
        // Either this sees the sleeper, or the sleeper sees the new count.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            wake(&self.count, u32::MAX);
        }
    }

    /// Calls up to `most` of those that sleep, after a change that their condition depends on. Whether there are any; the
    /// count moves only then.
    pub(super) fn call(&self, most: u32) -> bool {
        // Either this sees the sleeper, or the sleeper sees the change.
        fence(Ordering::SeqCst);
        let is_anyone_there = self.sleepers.load(Ordering::Relaxed) > 0;
        if is_anyone_there {
            self.count.fetch_add(1, Ordering::Release);
            wake(&self.count, most);
        }
        is_anyone_there
    }

    /// Waits until something is so: `patience` awake, then asleep. False when the `timeout` of the sleep is over first.
    pub(super) fn wait(&self, patience: Duration, timeout: Option<Duration>, is_so: &dyn Fn() -> bool) -> bool {
        if spin(patience, is_so) {
            return true;
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let mut in_time = true;
        let outcome = loop {
            // The count is read first: a change after the look moves it.
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
