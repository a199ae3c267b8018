//! The record of live views of tensors. The memory is two numbers; a view covers one of them, or
//! both.

use core::ops::Range;
use std::array::from_fn;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::check_with_interruptions;
use record::{Cell, Crowd, Record, WAYS};

mod sync {
    pub(super) use loom::sync::Mutex;
    pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    pub(super) use crate::atomic::lock;
}

#[path = "../../../runtime/core/src/tensor/borrow/record.rs"]
mod record;

/// Addresses of the numbers.
const FIRST: Range<usize> = 16..24;
const SECOND: Range<usize> = 24..32;
const BOTH: Range<usize> = 16..32;

struct Memory {
    record: Record<1>,
    numbers: [UnsafeCell<u32>; 2],
}

// SAFETY: the record decides which access is allowed, which is what the models check.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Arc<Self> {
        let number = || sync::AtomicUsize::new(0);
        let cells = from_fn(|_way| from_fn(|_set| Cell::new(sync::AtomicU64::new(0), number(), number())));
        let record = Record::new(cells, sync::Mutex::new(Crowd::new()));
        Arc::new(Self { record, numbers: from_fn(|_| UnsafeCell::new(0)) })
    }

    fn numbers(&self, range: &Range<usize>) -> impl Iterator<Item = &UnsafeCell<u32>> {
        let range = range.clone();
        self.numbers
            .iter()
            .zip([FIRST, SECOND])
            .filter(move |(_, of)| range.contains(&of.start))
            .map(|(number, _)| number)
    }

    /// Reads the numbers through a view; false if another view excludes it.
    fn read(&self, range: Range<usize>) -> bool {
        let token = self.record.acquire(range.clone(), false);
        if token == 0 {
            return false;
        }
        for number in self.numbers(&range) {
            // SAFETY: loom reports unordered writes of other threads.
            number.with(|number| unsafe { number.read() });
        }
        // SAFETY: acquired above.
        unsafe { self.record.release(range, false, token) };
        true
    }

    /// Writes the numbers through a view; false if another view excludes it.
    fn write(&self, range: Range<usize>) -> bool {
        let token = self.record.acquire(range.clone(), true);
        if token == 0 {
            return false;
        }
        for number in self.numbers(&range) {
            // SAFETY: loom reports unordered accesses of other threads.
            number.with_mut(|number| unsafe { *number += 1 });
        }
        // SAFETY: acquired above.
        unsafe { self.record.release(range, true, token) };
        true
    }

    /// Checks that no range is in use: each can be written and read.
    fn is_free(&self) {
        for range in [BOTH, FIRST, SECOND] {
            assert!(self.write(range.clone()), "{range:?}");
            assert!(self.read(range));
        }
    }
}

/// Two threads use the memory at once; `before` runs earlier, `after` is the last step of the first
/// thread.
fn together(
    before: impl Fn(&Memory) + Send + Sync + 'static,
    first: impl Fn(&Memory) + Send + Sync + 'static,
    second: impl Fn(&Memory) + Send + Sync + Clone + 'static,
) {
    check_with_interruptions(3, move || {
        let memory = Memory::new();
        before(&memory);
        let (other, second) = (memory.clone(), second.clone());
        let other = thread::spawn(move || second(&other));
        first(&memory);
        other.join().unwrap();
        memory.is_free();
    });
}

/// A writer and a reader of the same range, which has a cell.
pub fn a_writer_and_a_reader() {
    together(
        |memory| assert!(memory.read(BOTH)),
        |memory| _ = memory.write(BOTH),
        |memory| {
            memory.read(BOTH);
            memory.read(BOTH);
        },
    );
}

/// Two writers of a range that has no cell yet; one of them, at least, gets its view.
pub fn the_first_views() {
    together(|_| {}, |memory| _ = memory.write(BOTH), |memory| _ = memory.write(BOTH));
}

/// Readers never exclude each other, for any ranges.
pub fn readers_of_overlapping_ranges() {
    together(
        |memory| assert!(memory.read(BOTH)),
        |memory| assert!(memory.read(FIRST)),
        |memory| {
            assert!(memory.read(BOTH));
            assert!(memory.read(BOTH));
        },
    );
}

/// A range has a cell and is read; another range, which overlaps it, is written.
pub fn a_writer_of_a_part() {
    together(
        |memory| assert!(memory.read(BOTH)),
        |memory| _ = memory.write(SECOND),
        |memory| {
            memory.read(BOTH);
            memory.read(BOTH);
        },
    );
}

/// As above, with the roles exchanged.
pub fn a_reader_of_a_part() {
    together(
        |memory| assert!(memory.read(BOTH)),
        |memory| {
            memory.read(FIRST);
            memory.read(FIRST);
        },
        |memory| {
            memory.write(BOTH);
            memory.write(BOTH);
        },
    );
}

/// While a part is read, the whole is read, which leaves its cell crowded for the next writer.
pub fn a_cell_stays_crowded() {
    together(
        |memory| assert!(memory.read(BOTH)),
        |memory| _ = memory.read(FIRST),
        |memory| {
            memory.read(BOTH);
            memory.write(BOTH);
        },
    );
}

/// The cell of the whole is given up for the parts while another thread begins a view of the whole.
pub fn a_cell_is_given_up() {
    together(
        |memory| {
            assert!(memory.read(BOTH));
            assert!(memory.read(FIRST));
            assert!(memory.read(FIRST));
        },
        |memory| _ = memory.write(FIRST),
        |memory| {
            memory.read(BOTH);
            memory.read(BOTH);
        },
    );
}

/// A writer in the crowd ends; a reader finds the cell crowded and opens it, and another one comes
/// after it.
pub fn a_cell_is_opened_again() {
    check_with_interruptions(3, || {
        let memory = Memory::new();
        assert!(memory.read(BOTH));
        let threads = [0, 1].map(|_| {
            let memory = memory.clone();
            thread::spawn(move || memory.read(BOTH))
        });
        memory.write(FIRST);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        memory.is_free();
    });
}

/// A writer of a part ends; a reader releases its cell for the whole, and another one finds the new
/// cell.
pub fn a_cell_is_settled() {
    check_with_interruptions(2, || {
        let memory = Memory::new();
        assert!(memory.write(FIRST));
        let threads = [3, 1].map(|times| {
            let memory = memory.clone();
            thread::spawn(move || (0..times).for_each(|_| _ = memory.read(BOTH)))
        });
        memory.write(FIRST);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        memory.is_free();
    });
}

/// The whole has a cell, which is reused for the next range without one.
fn all_cells_are_taken(memory: &Memory) {
    assert!(memory.read(BOTH));
    for place in 1..WAYS {
        assert!(memory.read(place * 64..place * 64 + 8));
    }
    // All but the last of the attempts that are rejected before that.
    for place in 0..8 * WAYS - 1 {
        assert!(memory.read(4096 + place * 8..4100 + place * 8));
    }
}

/// A cell is reused for another range while it is checked.
pub fn a_cell_changes_hands() {
    let take = |memory: &Memory| {
        memory.read(8192..8196);
        memory.write(FIRST);
    };
    together(all_cells_are_taken, take, |memory| _ = memory.read(BOTH));
}

/// As above, with the roles exchanged.
pub fn a_cell_in_use_does_not_change_hands() {
    let take = |memory: &Memory| {
        memory.read(8192..8196);
        memory.write(FIRST);
    };
    together(all_cells_are_taken, |memory| _ = memory.write(BOTH), take);
}
