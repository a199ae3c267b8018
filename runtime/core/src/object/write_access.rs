//! The right to write to an object that other code may read.
//!
//! Rust code only reads an object while it holds its own counted reference (an
//! [`ObjRef`](super::ObjRef), or one for the duration of a call). So the holder of the only
//! reference may write, as long as no thread adds one meanwhile. The word after the type index,
//! which the ABI leaves unused, is the lock: a writer sets it, then checks that the object is still
//! unique; a thread that adds a reference for Rust code does that first and checks the lock
//! afterwards. All four steps are sequentially consistent, so at least one of the two sees the
//! other.
//!
//! The same word marks an object as incomplete: it was created by its type's creator, and fields
//! are missing (`construction.rs`). It also marks an object as fresh: another language created or
//! copied it, and no Rust code has had a reference to it yet. The creating thread may still set its
//! fields, regardless of the number of references. The first reference in Rust code ends that
//! state, and so does another thread that reads a field: a Rust thread may do that at any time,
//! through a reference to any value.
//!
//! A method's `&self` does not count a reference (`borrowed.rs`): the caller's reference keeps the
//! object alive. The first such call marks the object as shared, and after that no setter writes to
//! it, regardless of the number of references.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::TVMFFIObject;
use crate::embedded;

/// The object is complete, and no thread writes to it.
const COMPLETE: u32 = 0;
/// All fields have values, and Rust code reads the object without its own reference: no setter
/// writes to it any more.
const SHARED: u32 = 1;
/// A thread is writing to the object.
const LOCKED: u32 = u32::MAX;
/// All fields have values, and no Rust code has seen the object. The other bits are the number of
/// the thread that created it.
const FRESH: u32 = 1 << 31;

/// The decoded state word of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All fields have values.
    Complete,
    /// All fields have values, and no Rust code has seen the object. Contains the state word.
    Fresh(u32),
    /// Fields are missing. Contains the offset of the construction record from the handle, in units
    /// of 8 bytes.
    Incomplete(u32),
}

/// Returns whether a state word marks the object as fresh.
const fn is_fresh(word: u32) -> bool {
    word >= FRESH && word != LOCKED
}

/// The state word of an object that this thread creates. The system's thread numbers are the same
/// for all libraries of a process.
#[inline]
fn fresh_here() -> u32 {
    thread_local!(static WORD: Cell<u32> = const { Cell::new(0) });
    #[cold]
    fn first() -> u32 {
        let fresh = FRESH | thread_number();
        let word = if is_fresh(fresh) { fresh } else { COMPLETE };
        WORD.set(word);
        word
    }
    match WORD.get() {
        0 => first(),
        word => word,
    }
}

#[cfg(target_os = "linux")]
fn thread_number() -> u32 {
    // SAFETY: a system call without arguments.
    (unsafe { libc::syscall(libc::SYS_gettid) }) as u32
}

#[cfg(target_vendor = "apple")]
fn thread_number() -> u32 {
    let mut number = 0;
    // SAFETY: the number of this thread is written to a variable.
    unsafe { libc::pthread_threadid_np(0, &mut number) };
    number as u32
}

#[cfg(windows)]
fn thread_number() -> u32 {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetCurrentThreadId() -> u32;
    }
    // SAFETY: a plain call.
    unsafe { GetCurrentThreadId() }
}

fn word<'a>(object: *mut TVMFFIObject) -> &'a AtomicU32 {
    // SAFETY: the callers pass a live object; Kernpack accesses this word of objects only
    // atomically, and the ABI leaves it unused.
    unsafe { AtomicU32::from_ptr(&raw mut (*object).padding) }
}

/// Returns the state of an object; waits while it is written to.
///
/// # Safety
/// The object is alive.
#[inline]
pub(super) unsafe fn state(object: *mut TVMFFIObject) -> State {
    match word(object).load(Ordering::SeqCst) {
        COMPLETE | SHARED => State::Complete,
        _ => rare_state(object),
    }
}

/// Returns the offset of the construction record, in units of 8 bytes, if the object is incomplete.
///
/// # Safety
/// The object is alive.
#[inline]
pub(super) unsafe fn incomplete(object: *mut TVMFFIObject) -> Option<u32> {
    let record = word(object).load(Ordering::SeqCst);
    (record > SHARED && record < FRESH).then_some(record)
}

/// Returns whether all fields of an object have values and no other thread changes them while this
/// one reads a field. Waits while other code writes to the object.
///
/// # Safety
/// The object is alive, and the caller owns a reference to it.
#[inline]
pub(super) unsafe fn is_readable(object: *mut TVMFFIObject) -> bool {
    let state = word(object).load(Ordering::SeqCst);
    // SAFETY: promised by the caller.
    matches!(state, COMPLETE | SHARED) || unsafe { is_readable_in_state(object, state) }
}

/// The slow path of [`is_readable`].
#[cold]
#[inline(never)]
unsafe fn is_readable_in_state(object: *mut TVMFFIObject, state: u32) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        if !is_fresh(state) || state != fresh_here() {
            return seen(object) == State::Complete;
        }
        // The only owner may set fields anyway, so this does not take a right away; from now on
        // reading the object does not require the thread's number.
        if embedded::is_unique_in_order(object) {
            let _ = word(object).compare_exchange(state, COMPLETE, Ordering::SeqCst, Ordering::SeqCst);
        }
        true
    }
}

#[cold]
#[inline(never)]
fn rare_state(object: *mut TVMFFIObject) -> State {
    loop {
        match word(object).load(Ordering::SeqCst) {
            COMPLETE | SHARED => return State::Complete,
            LOCKED => std::thread::yield_now(),
            word if is_fresh(word) => return State::Fresh(word),
            record => return State::Incomplete(record),
        }
    }
}

/// Returns the state of an object that Rust code gets a reference to; a fresh object becomes
/// complete.
///
/// # Safety
/// The object is alive, and the caller has counted its own reference.
#[inline]
pub(super) unsafe fn seen(object: *mut TVMFFIObject) -> State {
    // SAFETY: promised by the caller.
    unsafe {
        loop {
            match state(object) {
                State::Fresh(fresh) => {
                    let _ = word(object).compare_exchange(fresh, COMPLETE, Ordering::SeqCst, Ordering::SeqCst);
                }
                other => return other,
            }
        }
    }
}

/// Returns whether no setter of a read-only field can write to the object any more, regardless of
/// the number of references.
///
/// # Safety
/// The object is alive.
#[inline]
#[doc(hidden)]
pub unsafe fn is_shared(object: *mut TVMFFIObject) -> bool {
    word(object).load(Ordering::Relaxed) == SHARED
}

/// Returns the state of an object that Rust code reads without its own reference, for the duration
/// of a call. From now on no setter writes to it.
///
/// # Safety
/// The object is alive.
#[inline]
pub(super) unsafe fn share(object: *mut TVMFFIObject) -> State {
    match word(object).load(Ordering::Acquire) {
        SHARED => State::Complete,
        _ => share_first(object),
    }
}

#[cold]
#[inline(never)]
fn share_first(object: *mut TVMFFIObject) -> State {
    loop {
        let before = match rare_state(object) {
            State::Complete => COMPLETE,
            State::Fresh(fresh) => fresh,
            incomplete => return incomplete,
        };
        let shared = word(object).compare_exchange(before, SHARED, Ordering::SeqCst, Ordering::SeqCst);
        if matches!(shared, Ok(_) | Err(SHARED)) {
            return State::Complete;
        }
    }
}

/// Marks an object as incomplete; `record` is the position of its construction record.
///
/// # Safety
/// The object is new, and no other code has a reference to it.
pub(super) unsafe fn begin(object: *mut TVMFFIObject, record: u32) {
    word(object).store(record, Ordering::Release);
}

/// Marks an object as complete, and as fresh for this thread.
///
/// # Safety
/// The object is new or incomplete, all of its fields have values, and no Rust code has seen it.
pub(super) unsafe fn complete(object: *mut TVMFFIObject) {
    word(object).store(fresh_here(), Ordering::SeqCst);
}

/// Runs `write` if this thread created the object and it is fresh, or if it is complete and the
/// caller's reference is the only one; returns `None` otherwise.
///
/// # Safety
/// The object is alive and complete, and the caller owns a reference to it.
pub(super) unsafe fn while_unique<R>(object: *mut TVMFFIObject, write: impl FnOnce() -> R) -> Option<R> {
    /// Unlocks even if `write` panics.
    struct Lock(*mut TVMFFIObject, u32);
    impl Drop for Lock {
        fn drop(&mut self) {
            word(self.0).store(self.1, Ordering::SeqCst);
        }
    }
    let mut before = word(object).load(Ordering::SeqCst);
    loop {
        if before == SHARED {
            return None;
        }
        if before == LOCKED {
            std::thread::yield_now();
            before = word(object).load(Ordering::SeqCst);
            continue;
        }
        match word(object).compare_exchange(before, LOCKED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => break,
            Err(now) => before = now,
        }
    }
    let lock = Lock(object, before);
    let is_free = is_fresh(before) && before == fresh_here();
    // SAFETY: promised by the caller.
    let result = (is_free || unsafe { embedded::is_unique_in_order(object) }).then(write);
    drop(lock);
    result
}
