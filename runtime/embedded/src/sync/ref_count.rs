//! The reference counts of an object: one word, which all languages change inline and by the same
//! rules (abi.md, section 2).
//!
//! The low 32 bits count strong references; the high 32 bits count weak ones, one of which is owned
//! by all strong references together. `tests/loom` checks this file.
//!
//! The highest bit is a lock, which only code of this project takes, for lists and dicts. Other
//! code adds to the counts and subtracts from them, which does not affect that bit as long as there
//! are fewer than 2^31 weak references; it compares the whole word only to detect the last
//! reference of all, which cannot be released while a thread holds the lock, because that thread
//! owns a strong one.

use super::atomic::{AtomicU64, Ordering};
use crate::notice::notice;

/// The counts of a new object.
pub(crate) const ONE_STRONG_ONE_WEAK: u64 = ONE_WEAK | 1;
const ONE_WEAK: u64 = 1 << 32;
const STRONG_MASK: u64 = 0xffff_ffff;
const LOCKED: u64 = 1 << 63;
/// 2^31 strong references: a program with that many has a leak.
const TOO_MANY_STRONG: u64 = 1 << 31;
/// 2^30 weak references.
const TOO_MANY_WEAK: u64 = 1 << 62;

/// The last strong references were released: the object has to be destroyed.
#[must_use]
pub(crate) struct LastStrong {
    before: u64,
}

impl LastStrong {
    /// Must be called before the object is destroyed. Returns true if its storage has to be freed
    /// with it, false if the weak reference of the strong ones has to be released afterwards.
    #[inline]
    pub(crate) fn is_last_of_all(&self, counts: &AtomicU64) -> bool {
        acquire(counts);
        self.before & !STRONG_MASK == ONE_WEAK
    }
}

/// Adds strong references, few at a time; the caller owns one already. Ends the process, like
/// `Arc`, if there are more than could ever be in use: the count would overflow, and an object in
/// use would be destroyed.
#[inline]
pub(crate) fn add_strong(counts: &AtomicU64, number: u32) {
    end_if_too_many(counts.fetch_add(u64::from(number), Ordering::Relaxed), TOO_MANY_STRONG);
}

/// Ends the process if the count had this bit. The threads that add to it before the process ends
/// are too few to carry into the bit above.
#[inline]
fn end_if_too_many(before: u64, too_many: u64) {
    if before & too_many != 0 {
        end();
    }
}

#[cold]
#[inline(never)]
fn end() -> ! {
    notice(format_args!("kernpack: too many references to an object"));
    std::process::abort();
}

/// [`add_strong`] of one reference in the total order of all sequentially consistent accesses.
#[inline]
pub(crate) fn add_strong_in_order(counts: &AtomicU64) {
    end_if_too_many(counts.fetch_add(1, Ordering::SeqCst), TOO_MANY_STRONG);
}

/// [`is_unique`] in the total order of all sequentially consistent accesses.
#[inline]
pub(crate) fn is_unique_in_order(counts: &AtomicU64) -> bool {
    counts.load(Ordering::SeqCst) == ONE_STRONG_ONE_WEAK
}

/// Adds a weak reference; the caller owns a reference already. Ends the process if there are more
/// than could ever be in use: further ones would be mistaken for the lock.
#[inline]
pub(crate) fn add_weak(counts: &AtomicU64) {
    end_if_too_many(counts.fetch_add(ONE_WEAK, Ordering::Relaxed), TOO_MANY_WEAK);
}

/// Releases strong references.
///
/// The holder of the only reference of both kinds does not write its release: there is no reader
/// left, and a load costs much less than a read-modify-write.
#[inline]
pub(crate) fn give_up_strong(counts: &AtomicU64, number: u32) -> Option<LastStrong> {
    if number == 1 && is_unique(counts) {
        return Some(LastStrong { before: ONE_STRONG_ONE_WEAK });
    }
    let before = counts.fetch_sub(u64::from(number), Ordering::Release);
    (before as u32 == number).then_some(LastStrong { before })
}

/// Releases a weak reference; returns true if the storage has to be freed.
#[inline]
pub(crate) fn give_up_weak(counts: &AtomicU64) -> bool {
    let last = counts.fetch_sub(ONE_WEAK, Ordering::Release) == ONE_WEAK;
    if last {
        acquire(counts);
    }
    last
}

/// Makes visible what other threads did with the object before they gave up their references. A
/// load does this as well as a fence, because it reads the end of a chain of read-modify-writes in
/// which every one of theirs is a release; and the thread sanitizer understands it.
#[inline]
fn acquire(counts: &AtomicU64) {
    counts.load(Ordering::Acquire);
}

/// Creates a strong reference from a weak one, which the caller keeps; returns false if the object
/// is already destroyed. Ends the process in the same case as [`add_strong`].
#[inline]
pub(crate) fn try_promote(counts: &AtomicU64) -> bool {
    let step = |count: u64| (count & STRONG_MASK != 0).then_some(count + 1);
    let before = counts.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step);
    if let Ok(before) = before {
        end_if_too_many(before, TOO_MANY_STRONG);
    }
    before.is_ok()
}

/// Returns true if exactly one strong and no weak reference exists.
#[inline]
pub(crate) fn is_unique(counts: &AtomicU64) -> bool {
    counts.load(Ordering::Acquire) == ONE_STRONG_ONE_WEAK
}

/// The number of strong references at some moment.
#[inline]
pub(crate) fn strong(counts: &AtomicU64) -> u32 {
    (counts.load(Ordering::Relaxed) & STRONG_MASK) as u32
}

/// Takes the lock; returns false if another thread holds it. The caller owns a strong reference
/// until it has called [`unlock`].
#[inline]
pub(crate) fn try_lock(counts: &AtomicU64) -> bool {
    counts.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0
}

/// Returns true if a thread holds the lock at this moment.
#[inline]
pub(crate) fn is_locked(counts: &AtomicU64) -> bool {
    counts.load(Ordering::Relaxed) & LOCKED != 0
}

/// Releases the lock, and publishes all changes made under it.
#[inline]
pub(crate) fn unlock(counts: &AtomicU64) {
    counts.fetch_and(!LOCKED, Ordering::Release);
}
