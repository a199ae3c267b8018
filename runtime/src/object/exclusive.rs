//! Who may write to an object that others might read.
//!
//! Rust code reads an object only while a reference of its own is counted (an [`ObjRef`](super::ObjRef), or one for the time of a
//! call). So the holder of the only reference may write, as long as no thread adds one meanwhile. The word behind the type index,
//! which the ABI leaves unused, is the lock: a writer sets it, then looks whether the object is still unique; who adds a reference for
//! Rust code does that first and looks at the lock afterwards. All four steps are sequentially consistent, so at least one of the two
//! sees the other.
//!
//! The same word says that an object is not complete: it was made by its type's creator, and fields are missing (`construction.rs`).

use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::TVMFFIObject;
use crate::embedded;

/// The object is complete, and nobody writes to it.
const COMPLETE: u32 = 0;
/// Somebody writes to the object.
const LOCKED: u32 = u32::MAX;

/// What the state word of an object says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All fields have values.
    Complete,
    /// Fields are missing; the construction record is at this many times 8 bytes from the handle.
    Incomplete(u32),
}

fn word<'a>(object: *mut TVMFFIObject) -> &'a AtomicU32 {
    // SAFETY: the callers pass a live object; Kernpack accesses this word of objects only atomically, and the ABI leaves it unused.
    unsafe { AtomicU32::from_ptr(&raw mut (*object).padding) }
}

/// The state of an object; waits while somebody writes to it.
///
/// # Safety
/// The object is alive.
#[inline]
pub(super) unsafe fn state(object: *mut TVMFFIObject) -> State {
    match word(object).load(Ordering::SeqCst) {
        COMPLETE => State::Complete,
        LOCKED => wait(object),
        record => State::Incomplete(record),
    }
}

#[cold]
#[inline(never)]
fn wait(object: *mut TVMFFIObject) -> State {
    loop {
        match word(object).load(Ordering::SeqCst) {
            COMPLETE => return State::Complete,
            LOCKED => std::thread::yield_now(),
            record => return State::Incomplete(record),
        }
    }
}

/// Declares an object incomplete; `record` is where its construction record is.
///
/// # Safety
/// The object is new, and only the caller knows it.
pub(super) unsafe fn begin(object: *mut TVMFFIObject, record: u32) {
    word(object).store(record, Ordering::Release);
}

/// Declares an object complete.
///
/// # Safety
/// The object is incomplete, and the caller has set its last field.
pub(super) unsafe fn complete(object: *mut TVMFFIObject) {
    word(object).store(COMPLETE, Ordering::SeqCst);
}

/// Runs `write` when the object is complete and the caller's reference is the only one; `None` otherwise.
///
/// # Safety
/// The object is alive and complete, and the caller owns a reference to it.
pub(super) unsafe fn while_unique<R>(object: *mut TVMFFIObject, write: impl FnOnce() -> R) -> Option<R> {
    /// Unlocks also when `write` panics.
    struct Lock(*mut TVMFFIObject);
    impl Drop for Lock {
        fn drop(&mut self) {
            word(self.0).store(COMPLETE, Ordering::SeqCst);
        }
    }
    while word(object).compare_exchange(COMPLETE, LOCKED, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
    let lock = Lock(object);
    // SAFETY: promised by the caller.
    let result = unsafe { embedded::is_unique_in_order(object) }.then(write);
    drop(lock);
    result
}
