//! A reference to a counted object that any thread may copy, without a lock, while another thread
//! replaces it.
//!
//! One word holds the address of the object, to which the word owns a reference, and the number of
//! *pins*: threads that are about to take a reference of their own. A copy is: pin, add a
//! reference, unpin. A thread that replaces the word takes over its pins in the same step, and has
//! paid for them before, with a reference for the maximum number of pins; the surplus is released
//! afterwards, together with the word's own reference. A thread that cannot unpin any more releases
//! the reference that was paid for it.
//!
//! This is correct even if the same object returns into the word: of the threads between pin and
//! unpin of an object, as many are unpaid as the word has pins (none, if it points elsewhere).
//! Pinning and unpinning change both sides by one; replacing turns pins into payments. A thread
//! that finds no pin in the word therefore finds a payment, and it does not matter for which thread
//! it was made, because payments are interchangeable. So an object with such threads is alive: the
//! word's own reference keeps it, or else every one of them is paid for. `tests/loom` checks this
//! file.

use core::ptr::null_mut;

use super::atomic::{AtomicPtr, Ordering};

/// The pins are stored above the address, which has 48 bits in every program on the known machines.
const PIN: usize = 1 << ADDRESS_BITS;
const ADDRESS_BITS: u32 = 48;
const MAX_PINS: usize = usize::MAX >> ADDRESS_BITS;

/// An object with a reference count that any thread may change.
///
/// # Safety
/// The object lives while there are references to it.
pub unsafe trait Counted {
    /// Adds references.
    ///
    /// # Safety
    /// `this` is alive.
    unsafe fn add_references(this: *mut Self, number: u32);

    /// Releases references; with the last one the object is destroyed.
    ///
    /// # Safety
    /// The caller owns that many references.
    unsafe fn give_up_references(this: *mut Self, number: u32);
}

/// A reference that may be copied and replaced, or NULL.
pub struct SharedRef<T: Counted> {
    word: AtomicPtr<T>,
}

/// References to an object that was replaced. They are released when this is dropped, which may run
/// foreign code.
#[must_use]
pub struct Replaced<T: Counted> {
    target: *mut T,
    number: u32,
}

impl<T: Counted> Drop for Replaced<T> {
    fn drop(&mut self) {
        if !self.target.is_null() {
            // SAFETY: `replace` left these references to us.
            unsafe { T::give_up_references(self.target, self.number) };
        }
    }
}

fn target<T>(word: *mut T) -> *mut T {
    word.map_addr(|address| address & (PIN - 1))
}

fn pins<T>(word: *mut T) -> usize {
    word.addr() >> ADDRESS_BITS
}

impl<T: Counted> SharedRef<T> {
    /// Creates a reference over a word that is NULL.
    ///
    /// # Safety
    /// The word is NULL.
    pub const unsafe fn new(word: AtomicPtr<T>) -> Self {
        Self { word }
    }

    /// Returns true if the address of an object leaves room for the pins.
    pub fn can_hold(object: *mut T) -> bool {
        object.addr() < PIN
    }

    /// A new reference, which the caller owns; NULL if there is no object.
    #[inline]
    pub fn copy(&self) -> *mut T {
        let mut word = self.word.load(Ordering::Relaxed);
        let pinned = loop {
            if word.is_null() {
                return null_mut();
            }
            if pins(word) == MAX_PINS {
                // More than 65535 simultaneous threads have to take turns.
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            let pinned = word.map_addr(|address| address + PIN);
            match self.word.compare_exchange_weak(word, pinned, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break pinned,
                Err(now) => word = now,
            }
        };
        let object = target(pinned);
        // SAFETY: the object is pinned, so it is alive.
        unsafe { T::add_references(object, 1) };
        self.unpin(object, pinned);
        object
    }

    /// Removes the pin of this thread. `word` is the last seen value of the word.
    #[inline]
    fn unpin(&self, object: *mut T, mut word: *mut T) {
        while target(word) == object && pins(word) > 0 {
            let unpinned = word.map_addr(|address| address - PIN);
            // Release: the thread that replaces the word and finds this pin gone sees the reference
            // that was added before.
            match self.word.compare_exchange_weak(word, unpinned, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        // SAFETY: the word was replaced since the caller pinned the object, and the replacing
        // thread paid a reference for the pin.
        unsafe { T::give_up_references(object, 1) };
    }

    /// Writes an object or NULL into the word, and returns the previous object.
    ///
    /// # Safety
    /// `object` is NULL or alive, [`can_hold`](Self::can_hold) is true for it, and the caller
    /// transfers one reference to it. No other code replaces the word at the same time.
    pub unsafe fn replace(&self, object: *mut T) -> Replaced<T> {
        // Only this thread may change the address.
        let old = target(self.word.load(Ordering::Relaxed));
        if old.is_null() {
            self.word.store(object, Ordering::Release);
            return Replaced { target: null_mut(), number: 0 };
        }
        // The references for the maximum number of pins are added first: a reader whose pin has
        // disappeared relies on them.
        // SAFETY: the word's own reference keeps the object alive.
        unsafe { T::add_references(old, MAX_PINS as u32) };
        let word = self.word.swap(object, Ordering::AcqRel);
        Replaced { target: old, number: 1 + (MAX_PINS - pins(word)) as u32 }
    }
}
