//! Tracks the memory that views cover, which Rust's borrow checker cannot do because tensors share
//! memory across functions, threads, libraries and languages.
//!
//! A view records the addresses that it covers for as long as it lives. Any number of views may read the same memory; a view
//! that writes is refused while others cover the memory, and others while it lives. The record is one table for the whole
//! process. Kernels in other languages do not take part; what they write to is their caller's to know.

mod record;
#[cfg(test)]
mod tests;

use core::ops::Range;

use self::record::{Cell, Crowd, IN_CROWD, Record, WAYS, begin, end};
use crate::process_table::ProcessTable;

/// The atomics of the record. `tests/loom` puts loom's in their place.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(super) use std::sync::Mutex;

    pub(super) use crate::embedded::atomic::lock;
}

/// The record as libraries built from different versions share it. Each library does the common case itself, in the cells; the rest is
/// done by the library whose record it is.
#[repr(C)]
struct BorrowTable {
    /// The cells that ranges have first.
    first_way: &'static [Cell; SETS],
    /// Records a view of the addresses `start..end`: a number for the end of the view, or 0 when another view is in the way.
    acquire: unsafe extern "C" fn(start: usize, end: usize, write: i32) -> usize,
    /// Takes a record back that is in no cell.
    leave: unsafe extern "C" fn(start: usize, end: usize, write: i32),
}

static OWN: BorrowTable = BorrowTable { first_way: RECORD.first_way(), acquire, leave };

// SAFETY: only libraries of this project register the name, with a table of this version's layout; they are never unloaded.
static TABLE: ProcessTable<BorrowTable> =
    unsafe { ProcessTable::new("kernpack.tensor_borrows_v3", &OWN, |_theirs, _own| {}) };

/// A recorded view; taken back when dropped.
pub(super) struct Borrow {
    table: &'static BorrowTable,
    range: Range<usize>,
    write: bool,
    /// The token that the table returned; 0 for an empty range.
    token: usize,
}

impl Borrow {
    /// Records a view; `None` when another view is in the way. An empty range is never in the way.
    #[inline]
    pub(super) fn new(range: Range<usize>, write: bool) -> Option<Self> {
        let table = TABLE.get();
        let mut token = 0;
        if !range.is_empty() {
            token = match begin(table.first_way, &range, write) {
                Some(token) => token,
                // SAFETY: this function of a table may be called with any numbers.
                None => unsafe { (table.acquire)(range.start, range.end, i32::from(write)) },
            };
            if token == 0 {
                return None;
            }
        }
        Some(Self { table, range, write, token })
    }

    /// A view inside one that is recorded already.
    pub(super) fn nested() -> Self {
        Self { table: TABLE.own(), range: 0..0, write: false, token: 0 }
    }

    /// The same addresses once more, for reading.
    pub(super) fn again(&self) -> Self {
        // Readers never exclude each other, so this succeeds where the first one did.
        Self::new(self.range.clone(), false).unwrap_or_else(Self::nested)
    }
}

impl Drop for Borrow {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: recorded in `new` with the same numbers, in the same table, which gave the token.
        unsafe {
            if self.token != 0 && !end(self.write, self.token) {
                (self.table.leave)(self.range.start, self.range.end, i32::from(self.write));
            }
        }
    }
}

/// Cells of one way. All of them are 256 KiB, of which a process touches what it uses.
const SETS: usize = 1024;

static RECORD: Record<SETS> = Record::new(
    [const { [const { Cell::new(sync::AtomicU64::new(0), sync::AtomicUsize::new(0), sync::AtomicUsize::new(0)) }; SETS] };
        WAYS],
    sync::Mutex::new(Crowd::new()),
);

unsafe extern "C" fn acquire(start: usize, end: usize, write: i32) -> usize {
    RECORD.acquire(start..end, write != 0)
}

unsafe extern "C" fn leave(start: usize, end: usize, write: i32) {
    // SAFETY: the caller gives back what it got, as the table says.
    unsafe { RECORD.release(start..end, write != 0, IN_CROWD) }
}
