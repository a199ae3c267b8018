//! Arrays that were replaced by larger ones while others may still read them without a lock. They are kept for good: what all of
//! them together take is less than what the arrays in use take. A list of them lets leak checkers see that they are not forgotten.

use std::sync::{Mutex, PoisonError};

/// The address of a kept array.
struct Kept(#[allow(dead_code, reason = "for leak checkers, which look for addresses in memory")] *const u8);

// SAFETY: the address is never used.
unsafe impl Send for Kept {}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Notes an array that is not used any more, but by threads that read it already.
#[inline]
pub(crate) fn keep<T>(array: *const T) {
    if !array.is_null() {
        note(array.cast());
    }
}

fn note(array: *const u8) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(Kept(array));
}
