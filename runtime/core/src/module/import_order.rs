//! The order of changes of import trees, shared by all modules of the process.
//!
//! A module of one artifact can be imported and searched by every other one, so the lock and the
//! number of the last change belong to the process. C++ modules change their imports without the
//! lock, when C++ code tells them to.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::process_table::ProcessTable;

/// The table in a form that libraries built from different versions share.
#[repr(C)]
struct ImportTable {
    /// Number of the last change of any import tree; at least 2.
    changes: AtomicU64,
    /// Waits until no other thread holds the lock; the lock is reentrant.
    acquire: unsafe extern "C" fn(),
    /// Releases one of this thread's locks.
    release: unsafe extern "C" fn(),
}

static OWN: ImportTable = ImportTable { changes: AtomicU64::new(2), acquire, release };

// SAFETY: only libraries of this project register the name, with a table of this version's layout;
// they are never unloaded.
static TABLE: ProcessTable<ImportTable> = unsafe { ProcessTable::new("kernpack.import_order_v1", &OWN, join) };

/// Makes every number that our table has given out older than all later numbers of their table.
#[inline]
fn join(theirs: &ImportTable, own: &ImportTable) {
    theirs.changes.fetch_max(own.changes.load(Ordering::Acquire), Ordering::AcqRel);
    theirs.changes.fetch_add(1, Ordering::AcqRel);
}

/// While this lives, no other thread changes or searches an import tree. The lock is reentrant:
/// changing a tree may call a provider, which calls a module, which takes the lock.
pub(super) struct ImportLock {
    table: &'static ImportTable,
    /// The lock is released on the thread that took it.
    _not_send: PhantomData<*const ()>,
}

impl ImportLock {
    /// Waits for the lock.
    #[inline]
    pub(super) fn take() -> Self {
        let table = TABLE.get();
        // SAFETY: released once, by this thread, when the result is dropped.
        unsafe { (table.acquire)() };
        Self { table, _not_send: PhantomData }
    }
}

impl Drop for ImportLock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken by this thread.
        unsafe { (self.table.release)() };
    }
}

/// The number of the last change.
#[inline]
pub(super) fn last_change() -> u64 {
    TABLE.get().changes.load(Ordering::Acquire)
}

/// Records that an import tree has changed.
#[inline]
pub(super) fn note_change() {
    TABLE.get().changes.fetch_add(1, Ordering::AcqRel);
}

/// The thread that holds the lock.
struct Holder {
    thread: usize,
    /// Number of times that the thread holds the lock; 0 if no thread holds it.
    times: usize,
}

static HOLDER: Mutex<Holder> = Mutex::new(Holder { thread: 0, times: 0 });
static GIVEN_UP: Condvar = Condvar::new();

#[inline]
fn holder() -> MutexGuard<'static, Holder> {
    HOLDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An identity that no other living thread has.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    // The thread-local does not have a destructor, so it exists until the thread has ended.
    HERE.try_with(|here| ptr::from_ref(here).addr()).unwrap_or_default()
}

#[inline]
unsafe extern "C" fn acquire() {
    let (thread, mut holder) = (this_thread(), holder());
    while holder.times > 0 && holder.thread != thread {
        holder = GIVEN_UP.wait(holder).unwrap_or_else(PoisonError::into_inner);
    }
    holder.thread = thread;
    holder.times += 1;
}

#[inline]
unsafe extern "C" fn release() {
    let mut holder = holder();
    holder.times = holder.times.saturating_sub(1);
    if holder.times == 0 {
        drop(holder);
        GIVEN_UP.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;

    #[test]
    fn one_thread_at_a_time_as_often_as_it_likes() {
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            for _ in 0..200 {
                let _outer = ImportLock::take();
                let _inner = ImportLock::take();
                assert_eq!(INSIDE.fetch_add(1, Ordering::Relaxed), 0);
                std::thread::yield_now();
                assert_eq!(INSIDE.fetch_sub(1, Ordering::Relaxed), 1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(work);
            }
        });
    }
}
