//! Tracks the memory that views cover, which Rust's borrow checker cannot do because tensors share
//! memory across functions, threads, libraries and languages.
//!
//! A view records the addresses that it covers for as long as it lives. Any number of views may
//! read the same memory; a writing view cannot be created while others cover the memory, and no
//! others can be created while it lives. The record is one table for the whole process. Kernels in
//! other languages do not take part; their callers must know the memory that they write to.

mod record;
#[cfg(test)]
mod tests;

use core::ops::Range;

use self::record::{Cell, Crowd, IN_CROWD, Record, WAYS, begin, end};
use crate::process_table::ProcessTable;

/// The atomics of the record. `tests/loom` replaces them with loom's.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(super) use std::sync::Mutex;

    pub(super) use crate::embedded::atomic::lock;
}

/// The record in a form that libraries built from different versions share. Each library handles
/// the common case itself, in the cells; the library that owns the record does the rest.
#[repr(C)]
struct BorrowTable {
    /// The first cell of each set, which ranges use first.
    first_way: &'static [Cell; SETS],
    /// Records a view of the addresses `start..end`. Returns a token for the end of the view, or 0
    /// if another view conflicts with it.
    acquire: unsafe extern "C" fn(start: usize, end: usize, write: i32) -> usize,
    /// Removes the record of a view that is not in a cell.
    leave: unsafe extern "C" fn(start: usize, end: usize, write: i32),
}

static OWN: BorrowTable = BorrowTable { first_way: RECORD.first_way(), acquire, leave };

// SAFETY: only libraries of this project register the name, with a table of this version's layout;
// they are never unloaded.
static TABLE: ProcessTable<BorrowTable> =
    unsafe { ProcessTable::new("kernpack.tensor_borrows_v3", &OWN, |_theirs, _own| {}) };

/// A recorded view; the record is removed when this is dropped.
pub(super) struct Borrow {
    table: &'static BorrowTable,
    range: Range<usize>,
    write: bool,
    /// The token that the table returned; 0 for an empty range.
    token: usize,
}

impl Borrow {
    /// Records a view; `None` if another view conflicts with it. An empty range never conflicts.
    #[inline]
    pub(super) fn new(range: Range<usize>, write: bool) -> Option<Self> {
        let table = TABLE.get();
        let mut token = 0;
        if !range.is_empty() {
            token = match begin(table.first_way, &range, write) {
                Some(token) => token,
                // SAFETY: this function of a table accepts any numbers.
                None => unsafe { (table.acquire)(range.start, range.end, i32::from(write)) },
            };
            if token == 0 {
                return None;
            }
        }
        Some(Self { table, range, write, token })
    }

    /// A view inside one that is already recorded.
    pub(super) fn nested() -> Self {
        Self { table: TABLE.own(), range: 0..0, write: false, token: 0 }
    }

    /// Records the same addresses again, for reading.
    pub(super) fn again(&self) -> Self {
        // Readers never exclude each other, so this succeeds whenever the first one did.
        Self::new(self.range.clone(), false).unwrap_or_else(Self::nested)
    }
}

impl Drop for Borrow {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: recorded in `new` with the same numbers, in the same table, which returned the
        // token.
        unsafe {
            if self.token != 0 && !end(self.write, self.token) {
                (self.table.leave)(self.range.start, self.range.end, i32::from(self.write));
            }
        }
    }
}

/// Number of cells of one way. All cells together are 256 KiB, of which a process only touches the
/// part that it uses.
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
    // SAFETY: the caller returns what it got, as the table requires.
    unsafe { RECORD.release(start..end, write != 0, IN_CROWD) }
}
