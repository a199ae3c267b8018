//! Which memory is being viewed: what Rust's borrow checker cannot see, because tensors share memory across functions,
//! threads, libraries and languages.
//!
//! A view records the addresses that it covers for as long as it lives. Any number of views may read the same memory; a view
//! that writes is refused while others cover the memory, and others while it lives. The record is one table for the whole
//! process. Kernels in other languages do not take part; what they write to is their caller's to know.

use core::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process_table::ProcessTable;

/// The record as libraries built from different versions share it.
#[repr(C)]
struct BorrowTable {
    /// Records a view of the addresses `start..end`; 0 when another view is in the way.
    acquire: unsafe extern "C" fn(start: usize, end: usize, write: i32) -> i32,
    /// Takes one record back.
    release: unsafe extern "C" fn(start: usize, end: usize, write: i32),
}

static OWN: BorrowTable = BorrowTable { acquire, release };

// SAFETY: only libraries of this project register the name, with a table of this version's layout; they are never unloaded.
static TABLE: ProcessTable<BorrowTable> =
    unsafe { ProcessTable::new("kernpack.tensor_borrows_v1", &OWN, |_theirs, _own| {}) };

/// A recorded view; taken back when dropped.
pub(super) struct Borrow {
    table: &'static BorrowTable,
    range: Range<usize>,
    write: bool,
}

impl Borrow {
    /// Records a view; `None` when another view is in the way. An empty range is never in the way.
    #[inline]
    pub(super) fn new(range: Range<usize>, write: bool) -> Option<Self> {
        let table = TABLE.get();
        if !range.is_empty() {
            // SAFETY: the function of a table may be called with any numbers.
            let acquired = unsafe { (table.acquire)(range.start, range.end, i32::from(write)) };
            if acquired == 0 {
                return None;
            }
        }
        Some(Self { table, range, write })
    }

    /// A view inside one that is recorded already.
    pub(super) fn nested() -> Self {
        Self { table: TABLE.own(), range: 0..0, write: false }
    }

    /// The same addresses once more, for reading.
    pub(super) fn again(&self) -> Self {
        // Readers never stand in each other's way, so this succeeds where the first one did.
        Self::new(self.range.clone(), false).unwrap_or_else(Self::nested)
    }
}

impl Drop for Borrow {
    #[inline]
    fn drop(&mut self) {
        if !self.range.is_empty() {
            // SAFETY: recorded in `new` with the same numbers, in the same table.
            unsafe { (self.table.release)(self.range.start, self.range.end, i32::from(self.write)) }
        }
    }
}

/// Views of one range of addresses: so many readers, or one writer.
struct Entry {
    range: Range<usize>,
    readers: usize,
    written: bool,
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn acquire(start: usize, end: usize, write: i32) -> i32 {
    let (range, write) = (start..end, write != 0);
    let mut entries = entries();
    let mut same = None;
    for (index, entry) in entries.iter().enumerate() {
        let overlaps = entry.range.start < range.end && range.start < entry.range.end;
        if overlaps && (write || entry.written) {
            return 0;
        }
        if entry.range == range {
            same = Some(index);
        }
    }
    match same {
        Some(index) => entries[index].readers += 1,
        None => entries.push(Entry { range, readers: usize::from(!write), written: write }),
    }
    1
}

unsafe extern "C" fn release(start: usize, end: usize, write: i32) {
    let mut entries = entries();
    let found = entries.iter().position(|entry| entry.range == (start..end) && entry.written == (write != 0));
    if let Some(index) = found {
        entries[index].readers = entries[index].readers.saturating_sub(1);
        if entries[index].readers == 0 {
            entries.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        // Addresses that no allocation of this test program has.
        let (low, high) = (16..32, 24..40);
        let first = Borrow::new(low.clone(), false).unwrap();
        let second = first.again();
        let across = Borrow::new(high.clone(), false).unwrap();
        assert!(Borrow::new(low.clone(), true).is_none());
        drop((first, across));
        assert!(Borrow::new(20..21, true).is_none(), "the second reader is still there");
        drop(second);
        let writer = Borrow::new(low.clone(), true).unwrap();
        assert!(Borrow::new(high.clone(), false).is_none());
        assert!(Borrow::new(32..40, false).is_some(), "beside it is free");
        assert!(Borrow::new(0..0, true).is_some(), "nothing is never in the way");
        drop(writer);
        assert!(Borrow::new(high, true).is_some());
    }
}
