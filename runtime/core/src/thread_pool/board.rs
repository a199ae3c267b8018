//! The slots where launches are offered to idle workers, without a lock and without an allocation
//! per launch.
//!
//! A launch is stored on its caller's stack. The caller posts its address in a slot; a worker that
//! finds the slot open *joins* it, which keeps the caller from returning until the worker has
//! *left*.

use core::ptr;
use core::time::Duration;

use super::signal::Signal;
use super::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, SLOTS};

/// Bit of [`Slot::state`]: the slot can be joined. The other bits count the threads that have
/// joined and not left.
const OPEN: u32 = 1 << 31;

#[repr(align(64))]
struct Slot<T> {
    state: AtomicU32,
    launch: AtomicPtr<T>,
    /// Wakes the poster when the last thread has left.
    left: Signal,
}

/// The slots of a pool, and the workers that wait for an open one.
pub(super) struct Board<T> {
    /// One bit for each slot whose launch has unclaimed tasks.
    offered: AtomicU64,
    /// One bit for each slot that belongs to a launch.
    taken: AtomicU64,
    arrival: Signal,
    slots: [Slot<T>; SLOTS],
}

impl<T> Board<T> {
    pub(super) fn new() -> Self {
        Self {
            offered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            arrival: Signal::new(),
            slots: core::array::from_fn(|_| Slot {
                state: AtomicU32::new(0),
                launch: AtomicPtr::new(ptr::null_mut()),
                left: Signal::new(),
            }),
        }
    }

    /// Reserves a slot for a launch; `None` if all are taken.
    pub(super) fn reserve(&self) -> Option<usize> {
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            let slot = taken.trailing_ones() as usize;
            if slot >= SLOTS {
                return None;
            }
            // Acquire: the work of the slot's last owner is complete.
            if self.taken.fetch_or(1 << slot, Ordering::Acquire) & 1 << slot == 0 {
                return Some(slot);
            }
        }
    }

    /// Offers a launch in a reserved slot. The launch must not move until
    /// [`withdraw`](Self::withdraw) has returned.
    pub(super) fn offer(&self, slot: usize, launch: &T) {
        let place = &self.slots[slot];
        place.launch.store(ptr::from_ref(launch).cast_mut(), Ordering::Relaxed);
        // Not a store: another thread may be about to find the slot closed.
        place.state.fetch_or(OPEN, Ordering::Release);
        self.offered.fetch_or(1 << slot, Ordering::Release);
    }

    /// Wakes up to `most` sleeping workers for the offers. Returns whether any were sleeping.
    pub(super) fn call(&self, most: u32) -> bool {
        self.arrival.call(most)
    }

    /// Marks all tasks of a launch as claimed. Called by the thread that claimed the last one,
    /// before it leaves the slot.
    pub(super) fn all_claimed(&self, slot: usize) {
        self.offered.fetch_and(!(1 << slot), Ordering::Relaxed);
    }

    /// Ends the offer: waits until all threads that joined have left, then releases the slot.
    pub(super) fn withdraw(&self, slot: usize, patience: Duration) {
        let place = &self.slots[slot];
        let is_left = || place.state.load(Ordering::Acquire) == 0;
        if place.state.fetch_and(!OPEN, Ordering::Acquire) != OPEN {
            place.left.wait(patience, None, &is_left);
        }
        self.taken.fetch_and(!(1 << slot), Ordering::Release);
    }

    /// Joins an offered launch. The search starts at slot `first`, so that workers spread over the
    /// slots.
    pub(super) fn join(&self, first: u32) -> Option<Joined<'_, T>> {
        let mut offered = self.offered.load(Ordering::Acquire).rotate_right(first);
        while offered != 0 {
            let slot = ((offered.trailing_zeros() + first) % u64::BITS) as usize;
            offered &= offered - 1;
            let is_open = self.slots[slot].state.fetch_add(1, Ordering::Acquire) & OPEN != 0;
            let joined = Joined { board: self, slot };
            if is_open {
                return Some(joined);
            }
        }
        None
    }

    /// Joins a slot on behalf of another thread.
    ///
    /// # Safety
    /// The caller has joined it, or is its poster and has not withdrawn.
    pub(super) unsafe fn join_also(&self, slot: usize) -> Joined<'_, T> {
        self.slots[slot].state.fetch_add(1, Ordering::Relaxed);
        Joined { board: self, slot }
    }

    /// Waits until a launch is offered. Returns false if `timeout` elapses first.
    pub(super) fn wait(&self, patience: Duration, timeout: Option<Duration>) -> bool {
        self.arrival.wait(patience, timeout, &|| self.offered.load(Ordering::Relaxed) != 0)
    }
}

/// A thread's participation in a launch, which keeps the launch in place.
pub(super) struct Joined<'a, T> {
    board: &'a Board<T>,
    slot: usize,
}

impl<T> Joined<'_, T> {
    pub(super) fn launch(&self) -> &T {
        // SAFETY: the slot was open when it was joined, so its poster had stored a launch there,
        // which stays until this thread leaves.
        unsafe { &*self.board.slots[self.slot].launch.load(Ordering::Relaxed) }
    }
}

impl<T> Drop for Joined<'_, T> {
    fn drop(&mut self) {
        let place = &self.board.slots[self.slot];
        // Release: the work of this thread in the launch is complete.
        if place.state.fetch_sub(1, Ordering::Release) == 1 {
            place.left.call(1);
        }
    }
}
