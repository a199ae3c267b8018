//! The record of live views: the addresses that are being viewed, and the kind of access.
//!
//! Views of different memory do not share a cache line. Each range of addresses that is viewed has
//! its own cell: a cache line with the number of readers, or a writer mark. The cell stays when the
//! last view ends, so the next view of the same range finds it by a hash of the range and changes
//! one word.
//!
//! Changing one word is enough because of this file's invariant: *a live cell that is not crowded
//! overlaps no other live cell and no entry of the crowd*. If ranges overlap without being equal (a
//! matrix and one of its rows), the second one goes to the crowd, a list under a lock, and the
//! cells that it overlaps are marked as crowded: a new view of those takes the lock as well. The
//! lock is also taken for a range that does not have a cell yet.
//!
//! `tests/loom` runs this file with every possible interleaving of threads.

use core::ops::Range;
use std::collections::BTreeMap;

use super::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// Number of cells that a range can use. They are tried in order.
pub(super) const WAYS: usize = 4;

/// The low half of a cell's state: the number of readers, and the three marks below. The high half
/// is a generation: it counts the ranges that the cell has had.
const MOST_READERS: u32 = (1 << 28) - 1;
const WRITER: u32 = 1 << 29;
/// New views take the lock.
const CROWDED: u32 = 1 << 30;
/// The cell has a range. A cell without one is all zeros.
const LIVE: u32 = 1 << 31;

/// The result of [`Record::acquire`] for a view in the crowd. A cell never has this address.
pub(super) const IN_CROWD: usize = 1;

/// Number of consecutive ranges overlapping an idle cell that go to the crowd before the cell is
/// given up for them.
const PATIENCE: u8 = 2;

/// Of this many ranges whose cells are all taken, one gets another range's idle cell: if more
/// ranges alternate than there are cells, most of them keep their cells.
const TURNED_AWAY: usize = 8;

/// A range of addresses and its views, in one cache line. Libraries share it: its layout, the
/// meaning of its numbers and [`set_of`] belong to the version in the table's name.
#[repr(C, align(64))]
pub(super) struct Cell {
    state: AtomicU64,
    /// Changed only while the state is not live.
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Cell {
    /// Creates a cell; all three values are 0.
    pub(super) const fn new(state: AtomicU64, start: AtomicUsize, end: AtomicUsize) -> Self {
        Self { state, start, end }
    }

    /// Begins a view of a range. Returns a token for [`end`]; `None` if the cell has another range,
    /// or if the view must not begin without the lock.
    #[inline]
    fn begin(&self, range: &Range<usize>, write: bool) -> Option<usize> {
        let mut state = self.state.load(Ordering::Acquire);
        while self.has(range)
            && let Some(wanted) = with_view(state, write)
        {
            // The state contains the generation, so this cannot succeed if the cell got another
            // range meanwhile.
            match self.state.compare_exchange_weak(state, wanted, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(core::ptr::from_ref(self).expose_provenance()),
                Err(now) => state = now,
            }
        }
        None
    }

    #[inline]
    fn has(&self, range: &Range<usize>) -> bool {
        self.start.load(Ordering::Relaxed) == range.start && self.end.load(Ordering::Relaxed) == range.end
    }

    /// Releases the cell from its range if it does not have a view. Only under the lock.
    fn give_up(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        // A view that ends only makes the cell idle, and one that begins changes the state, so one
        // attempt is enough.
        marks(state) & (MOST_READERS | WRITER) == 0
            && self.state.compare_exchange(state, next_generation(state), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// The half of a state without the generation.
fn marks(state: u64) -> u32 {
    state as u32
}

/// The state of the cell with its next range, before it is live.
fn next_generation(state: u64) -> u64 {
    ((state >> 32) + 1) << 32
}

/// The state with one more view; `None` if the view must not begin without the lock.
#[inline]
fn with_view(state: u64, write: bool) -> Option<u64> {
    // The result exceeds the maximum number of readers if any other mark is set, or if LIVE is not.
    let readers = marks(state).wrapping_sub(LIVE);
    match write {
        true => (readers == 0).then_some(state + u64::from(WRITER)),
        false => (readers < MOST_READERS).then_some(state + 1),
    }
}

/// Views of a range that are not in a cell.
struct Entry {
    range: Range<usize>,
    readers: usize,
    written: bool,
}

/// The record's data about a live cell.
struct Live {
    end: usize,
    cell: (usize, usize),
    /// Number of overlapping ranges since the last view of the cell.
    passed: u8,
}

/// Views that do not have a cell.
#[derive(Default)]
struct Entries(Vec<Entry>);

/// The data under the lock.
pub(super) struct Crowd {
    /// Views that do not have a cell; `None` before the first. Zeros, like the whole record: a
    /// static of zeros does not take space in a file.
    entries: Option<Box<Entries>>,
    /// Live cells by the start of their range. They do not overlap.
    live: BTreeMap<usize, Live>,
    /// Number of ranges that found all their cells taken by others.
    turned_away: usize,
}

impl Crowd {
    /// An empty crowd.
    pub(super) const fn new() -> Self {
        Self { entries: None, live: BTreeMap::new(), turned_away: 0 }
    }

    fn entries(&mut self) -> &mut Vec<Entry> {
        &mut self.entries.get_or_insert_default().0
    }
}

/// The record of live views, with `SETS` times [`WAYS`] cells.
pub(super) struct Record<const SETS: usize> {
    cells: [[Cell; SETS]; WAYS],
    crowd: Mutex<Crowd>,
}

impl<const SETS: usize> Record<SETS> {
    /// Creates an empty record from new cells and an empty crowd.
    pub(super) const fn new(cells: [[Cell; SETS]; WAYS], crowd: Mutex<Crowd>) -> Self {
        assert!(SETS.is_power_of_two());
        Self { cells, crowd }
    }

    /// Records a view of a range that is not empty. Returns a token for [`Record::release`], or 0
    /// if another view conflicts with it.
    #[inline]
    pub(super) fn acquire(&self, range: Range<usize>, write: bool) -> usize {
        let set = set_of::<SETS>(&range);
        self.cells
            .iter()
            .find_map(|way| way[set].begin(&range, write))
            .unwrap_or_else(|| self.acquire_slowly(range, write))
    }

    /// The first cell of each set, which ranges use first.
    pub(super) const fn first_way(&self) -> &[Cell; SETS] {
        &self.cells[0]
    }

    /// Removes the record of a view.
    ///
    /// # Safety
    /// `token` is the result of [`Record::acquire`] of this record for the same range and `write`,
    /// and was not released before.
    #[inline]
    pub(super) unsafe fn release(&self, range: Range<usize>, write: bool, token: usize) {
        // SAFETY: promised by the caller.
        if !unsafe { end(write, token) } {
            self.leave(&range, write);
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_slowly(&self, range: Range<usize>, write: bool) -> usize {
        let crowd = &mut *lock(&self.crowd);
        let mut is_alone = true;
        for entry in crowd.entries().iter().filter(|entry| overlap(&entry.range, &range)) {
            if write || entry.written {
                return 0;
            }
            is_alone = false;
        }
        if let Some(live) = crowd.live.get_mut(&range.start).filter(|live| live.end == range.end) {
            // Live cells do not overlap, so it is the only one in this range.
            live.passed = 0;
            let (way, set) = live.cell;
            if let Some(token) = self.acquire_live(&self.cells[way][set], write, is_alone) {
                return token;
            }
            is_alone = false;
        } else {
            let mut in_the_way = Vec::new();
            for (start, live) in crowd.live.range_mut(..range.end).rev() {
                if live.end <= range.start {
                    break;
                }
                let (way, set) = live.cell;
                let Some(is_idle) = close(&self.cells[way][set], write) else { return 0 };
                live.passed = if is_idle { live.passed.saturating_add(1) } else { 0 };
                is_alone &= live.passed > PATIENCE;
                in_the_way.push((*start, live.cell));
            }
            if is_alone {
                for (start, (way, set)) in in_the_way {
                    // Closed and idle above, so new views of it take the lock.
                    is_alone &= self.cells[way][set].give_up() && crowd.live.remove(&start).is_some();
                }
            }
        }
        if is_alone && let Some(token) = self.settle(crowd, &range, write) {
            return token;
        }
        let same = crowd.entries().iter_mut().find(|entry| entry.range == range);
        match same {
            Some(entry) => entry.readers += 1,
            None => crowd.entries().push(Entry { range, readers: usize::from(!write), written: write }),
        }
        IN_CROWD
    }

    /// Begins a view of a live cell, under the lock. Returns 0 if another view of the cell
    /// conflicts with it, `None` if the cell cannot count more readers. With `is_alone`, no view in
    /// the crowd overlaps the cell.
    fn acquire_live(&self, cell: &Cell, write: bool, is_alone: bool) -> Option<usize> {
        let mut state = cell.state.load(Ordering::Acquire);
        loop {
            let open = state & !u64::from(CROWDED);
            let Some(wanted) = with_view(open, write) else {
                // A cell with the maximum number of readers does not prevent another reader.
                return if write || close(cell, false).is_none() { Some(0) } else { None };
            };
            let wanted = if is_alone { wanted } else { wanted | u64::from(CROWDED) };
            // Release as well: a view that finds the cell open again comes after the views in the
            // crowd that have ended.
            match cell.state.compare_exchange_weak(state, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(core::ptr::from_ref(cell).expose_provenance()),
                Err(now) => state = now,
            }
        }
    }

    /// Assigns a cell to a range, with a first view. The range does not overlap with others.
    /// Returns `None` if all its cells are in use.
    fn settle(&self, crowd: &mut Crowd, range: &Range<usize>, write: bool) -> Option<usize> {
        let set = set_of::<SETS>(range);
        let is_free = |way: &usize| marks(self.cells[*way][set].state.load(Ordering::Relaxed)) & LIVE == 0;
        let way = (0..WAYS).find(is_free).or_else(|| {
            crowd.turned_away += 1;
            let way = crowd.turned_away / TURNED_AWAY % WAYS;
            let cell = &self.cells[way][set];
            let start = cell.start.load(Ordering::Relaxed);
            let is_given =
                crowd.turned_away.is_multiple_of(TURNED_AWAY) && cell.give_up() && crowd.live.remove(&start).is_some();
            is_given.then_some(way)
        })?;
        let cell = &self.cells[way][set];
        cell.start.store(range.start, Ordering::Relaxed);
        cell.end.store(range.end, Ordering::Relaxed);
        let generation = cell.state.load(Ordering::Relaxed);
        cell.state.store(generation + u64::from(LIVE) + u64::from(if write { WRITER } else { 1 }), Ordering::Release);
        crowd.live.insert(range.start, Live { end: range.end, cell: (way, set), passed: 0 });
        Some(core::ptr::from_ref(cell).expose_provenance())
    }

    #[cold]
    #[inline(never)]
    fn leave(&self, range: &Range<usize>, write: bool) {
        let mut crowd = lock(&self.crowd);
        let entries = crowd.entries();
        let found = entries.iter().position(|entry| entry.range == *range && entry.written == write);
        if let Some(index) = found {
            entries[index].readers = entries[index].readers.saturating_sub(1);
            if entries[index].readers == 0 {
                entries.swap_remove(index);
            }
        }
    }
}

/// Begins a view in the first cell of its range. Returns the result of [`Record::acquire`], or
/// `None` if that function has to search further. `first_way` is the result of
/// [`Record::first_way`] of this artifact's record or another's.
#[inline]
pub(super) fn begin<const SETS: usize>(first_way: &[Cell; SETS], range: &Range<usize>, write: bool) -> Option<usize> {
    first_way[set_of::<SETS>(range)].begin(range, write)
}

/// Ends a view that is in a cell. Returns false without an effect for a view that is in the crowd.
///
/// # Safety
/// As for [`Record::release`], of any artifact's record.
#[inline]
pub(super) unsafe fn end(write: bool, token: usize) -> bool {
    if token == IN_CROWD {
        return false;
    }
    // SAFETY: a token is the address of a cell, as the caller promises.
    let state = unsafe { &(*core::ptr::with_exposed_provenance::<Cell>(token)).state };
    if write {
        // While there is a writer, only the writer changes the state.
        let held = state.load(Ordering::Relaxed);
        state.store(held & !u64::from(WRITER), Ordering::Release);
    } else {
        state.fetch_sub(1, Ordering::Release);
    }
    true
}

#[inline]
fn set_of<const SETS: usize>(range: &Range<usize>) -> usize {
    let mixed = (range.start as u64 ^ (range.end as u64).rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize % SETS
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Marks a cell as crowded, because a view of some of its addresses begins. Returns whether the
/// cell does not have views itself; `None` if one of those conflicts. Only under the lock.
fn close(cell: &Cell, write: bool) -> Option<bool> {
    let mut state = cell.state.load(Ordering::Acquire);
    loop {
        let is_idle = marks(state) & (MOST_READERS | WRITER) == 0;
        if !is_idle && (write || marks(state) & WRITER != 0) {
            return None;
        }
        let crowded = state | u64::from(CROWDED);
        match cell.state.compare_exchange_weak(state, crowded, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(is_idle),
            Err(now) => state = now,
        }
    }
}
