//! The error slot: at most one raised error on each thread.

use core::cell::Cell;
use core::ptr::null_mut;

use crate::abi::{TVMFFIObject, TVMFFIObjectHandle};

use crate::cells::{dec_ref, inc_ref, new_error};

/// Releases the remaining error when the thread ends.
struct LastError;

impl Drop for LastError {
    fn drop(&mut self) {
        release(SLOT.replace(null_mut()));
    }
}

thread_local! {
    /// NULL or an error, to which the slot owns a reference. Without a destructor, which every
    /// access would have to check.
    static SLOT: Cell<*mut TVMFFIObject> = const { Cell::new(null_mut()) };
    static LAST_ERROR: LastError = const { LastError };
}

fn release(error: *mut TVMFFIObject) {
    if !error.is_null() {
        // SAFETY: the slot owns a reference to its object.
        unsafe { dec_ref(error) }
    }
}

/// Raises an error on this thread; a previously raised one is released.
///
/// # Safety
/// `error` is NULL (which clears the slot) or an object of which the caller transfers a strong
/// reference.
pub unsafe fn set_raised_owned(error: TVMFFIObjectHandle) {
    let old = SLOT.replace(error);
    if !old.is_null() {
        // After the exchange: its destructor may use the slot.
        release(old);
    } else if LAST_ERROR.try_with(|_| ()).is_err() {
        // The thread ends, and the slot has no owner any more.
        release(SLOT.replace(null_mut()));
    }
}

/// Raises an error; the caller keeps its reference.
///
/// # Safety
/// `error` is NULL (which clears the slot) or a live object.
pub unsafe fn set_raised(error: TVMFFIObjectHandle) {
    // SAFETY: promised by the caller; the new reference is given to the slot.
    unsafe {
        if !error.is_null() {
            inc_ref(error);
        }
        set_raised_owned(error);
    }
}

/// Creates an error and raises it.
pub fn raise(kind: &[u8], message: &[u8], backtrace: &[u8]) {
    // SAFETY: no cause and no extra context; the new reference is given to the slot.
    unsafe { set_raised_owned(new_error(kind, message, backtrace, null_mut(), null_mut())) }
}

/// Takes the raised error out of the slot; the caller owns the reference. NULL when nothing is
/// raised.
pub fn take_raised() -> TVMFFIObjectHandle {
    SLOT.replace(null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::TVMFFIErrorCell;
    use crate::cells::{body, strong_count};

    #[test]
    fn the_last_error_wins_and_is_moved_out() {
        assert!(take_raised().is_null());
        raise(b"ValueError", b"first", b"");
        raise(b"TypeError", b"second", b"");
        // Another thread has its own slot.
        std::thread::spawn(|| assert!(take_raised().is_null())).join().unwrap();
        let error = take_raised();
        assert!(take_raised().is_null());
        // SAFETY: the test owns the reference.
        unsafe {
            assert_eq!(body::<TVMFFIErrorCell>(error).kind.as_slice(), b"TypeError");
            set_raised(error);
            assert_eq!(strong_count(error), 2);
            set_raised_owned(null_mut());
            assert_eq!(strong_count(error), 1);

            // The error that a thread leaves is released.
            let left = core::sync::atomic::AtomicPtr::new(error);
            let thread = std::thread::spawn(move || set_raised(left.into_inner()));
            thread.join().unwrap();
            assert_eq!(strong_count(error), 1);
            dec_ref(error);
        }
    }
}
