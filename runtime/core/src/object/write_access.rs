//! The right to write to an object that other code may read.
//!
//! Rust code reads an object only while a reference of its own is counted (an [`ObjRef`](super::ObjRef), or one for the time of a
//! call). So the holder of the only reference may write, as long as no thread adds one meanwhile. The word behind the type index,
//! which the ABI leaves unused, is the lock: a writer sets it, then looks whether the object is still unique; a thread that adds a reference for
//! Rust code does that first and looks at the lock afterwards. All four steps are sequentially consistent, so at least one of the two
//! sees the other.
//!
//! The same word says that an object is not complete: it was made by its type's creator, and fields are missing (`construction.rs`).
//! And it says that an object is fresh: another language made or copied it, and no Rust code has got a reference to it so far. The
//! thread that made it may still set its fields, however many references there are. Its first reference in Rust code ends that, and
//! so does another thread that reads a field: a Rust thread may do that through a reference to just any value, at any time.
//!
//! A method's `&self` counts no reference (`borrowed.rs`): the caller's keeps the object alive. The first such call makes the object
//! shared, and then it is not written to any more, be there one reference or many.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::TVMFFIObject;
use crate::embedded;

/// The object is complete, and is not written to.
const COMPLETE: u32 = 0;
/// All fields have values, and Rust code reads the object without a reference of its own: it is not written to any more.
const SHARED: u32 = 1;
/// A thread writes to the object.
const LOCKED: u32 = u32::MAX;
/// All fields have values, and no Rust code has seen the object. The other bits are the number of the thread that made it.
const FRESH: u32 = 1 << 31;

/// The decoded state word of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All fields have values.
    Complete,
    /// All fields have values, and no Rust code has seen the object; the state word.
    Fresh(u32),
    /// Fields are missing; the construction record is at this many times 8 bytes from the handle.
    Incomplete(u32),
}

/// Returns whether a state word marks the object as fresh.
const fn is_fresh(word: u32) -> bool {
    word >= FRESH && word != LOCKED
}

/// The state word of an object that this thread makes. The system's numbers of threads are the same for all libraries of a process.
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
    // SAFETY: the callers pass a live object; Kernpack accesses this word of objects only atomically, and the ABI leaves it unused.
    unsafe { AtomicU32::from_ptr(&raw mut (*object).padding) }
}

/// The state of an object; waits while it is written to.
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

/// Returns the offset of the construction record of an object if the object is incomplete.
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

/// The rest of [`is_readable`].
#[cold]
#[inline(never)]
unsafe fn is_readable_in_state(object: *mut TVMFFIObject, state: u32) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        if !is_fresh(state) || state != fresh_here() {
            return seen(object) == State::Complete;
        }
        // The only owner may set fields anyhow, so nothing is lost; from now on the object is read without asking for the thread.
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

/// The state of an object that Rust code gets a reference to; a fresh one is not fresh any more.
///
/// # Safety
/// The object is alive, and a reference of the caller's own is counted.
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

/// The state of an object that Rust code reads without a reference of its own, for the time of a call. From now on no setter
/// writes to it.
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

/// Declares an object incomplete; `record` is where its construction record is.
///
/// # Safety
/// The object is new, and only the caller knows it.
pub(super) unsafe fn begin(object: *mut TVMFFIObject, record: u32) {
    word(object).store(record, Ordering::Release);
}

/// Declares an object complete, and fresh for this thread.
///
/// # Safety
/// The object is new or incomplete, all of its fields have values, and no Rust code has seen it.
pub(super) unsafe fn complete(object: *mut TVMFFIObject) {
    word(object).store(fresh_here(), Ordering::SeqCst);
}

/// Runs `write` when this thread made the object and it is fresh, or when it is complete and the caller's reference is the only one;
/// `None` otherwise.
///
/// # Safety
/// The object is alive and complete, and the caller owns a reference to it.
pub(super) unsafe fn while_unique<R>(object: *mut TVMFFIObject, write: impl FnOnce() -> R) -> Option<R> {
    /// Unlocks also when `write` panics.
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
