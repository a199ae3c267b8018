//! Arrays that were replaced by larger ones while other threads may still read them without a lock.
//! They are kept forever: all of them together take less memory than the arrays in use. A list of
//! them keeps them reachable for leak checkers.

use std::sync::{Mutex, PoisonError};

/// The address of a kept array.
struct Kept(#[allow(dead_code, reason = "for leak checkers, which look for addresses in memory")] *const u8);

// SAFETY: the address is never used.
unsafe impl Send for Kept {}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Keeps an array that is not used any more, except by threads that are already reading it.
#[inline]
pub(crate) fn keep<T>(array: *const T) {
    if !array.is_null() {
        note(array.cast());
    }
}

fn note(array: *const u8) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(Kept(array));
}
