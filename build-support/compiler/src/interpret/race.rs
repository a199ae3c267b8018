//! Detects data races: two iterations of a parallel loop, or two device threads, that access the
//! same byte without an order, where one of them writes.
//!
//! For each byte, the last writer and a summary of the readers are recorded. This is sufficient: of
//! two readers, the newer one represents both if they were ordered, and `many` represents readers
//! that were not.

use core::ops::Range;

use super::memory::Access;

/// One level of unordered work.
enum Level {
    /// Iterations of a parallel loop, or blocks of a grid.
    Tasks {
        /// The running iteration, counted from 1.
        current: u32,
        /// Regions with this number or a higher one belong to one iteration.
        newer: usize,
        shadows: Shadows<Task>,
        what: &'static str,
    },
    /// Threads of a block.
    Threads {
        /// The running thread, counted from 1.
        current: u32,
        warp_size: u32,
        /// The number of barriers at which all threads waited so far.
        epoch: u32,
        /// The number of barriers of each warp so far.
        warp_epochs: Vec<u32>,
        shadows: Shadows<Thread>,
    },
}

/// The access records of the bytes of each region, by its number.
struct Shadows<T>(Vec<Shadow<T>>);

/// The access records of a region's bytes: one cell for `unit` bytes, as long as all accesses are
/// multiples of that.
struct Shadow<T> {
    unit: usize,
    cells: Vec<T>,
}

impl<T> Default for Shadows<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Default> Shadows<T> {
    /// The cells of some bytes of a region of `length` bytes, and the number of bytes of each cell.
    #[inline]
    fn cells(&mut self, region: usize, bytes: &Range<usize>, length: usize) -> (&mut [T], usize) {
        if self.0.len() <= region {
            self.0.resize_with(region + 1, || Shadow { unit: 0, cells: Vec::new() });
        }
        let shadow = &mut self.0[region];
        if shadow.unit == 0 {
            shadow.unit = bytes.len().max(1);
            shadow.cells = vec![T::default(); length.div_ceil(shadow.unit)];
        }
        if !bytes.start.is_multiple_of(shadow.unit) || !bytes.end.is_multiple_of(shadow.unit) {
            let cells = core::mem::take(&mut shadow.cells);
            shadow.cells = cells.iter().flat_map(|cell| core::iter::repeat_n(*cell, shadow.unit)).collect();
            shadow.unit = 1;
        }
        (&mut shadow.cells[bytes.start / shadow.unit..bytes.end / shadow.unit], shadow.unit)
    }
}

/// The tasks that accessed a byte, counted from 1; 0 for none.
#[derive(Clone, Copy, Default)]
struct Task {
    writer: u32,
    writer_stmt: u32,
    /// `u32::MAX` for several tasks.
    reader: u32,
    reader_stmt: u32,
}

#[derive(Clone, Copy, Default)]
struct Touch {
    thread: u32,
    epoch: u32,
    warp_epoch: u32,
    stmt: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Readers {
    #[default]
    One,
    Warp,
    Many,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    write: Touch,
    read: Touch,
    readers: Readers,
}

/// All active levels, outermost first.
#[derive(Default)]
pub(super) struct Races {
    levels: Vec<Level>,
    /// The statement of the earlier access of a race.
    pub(super) other: Option<u32>,
}

/// Two unordered accesses.
pub(super) struct Race {
    pub(super) byte: usize,
    pub(super) text: String,
}

impl Races {
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Returns true if a block of threads is running.
    pub(super) fn has_threads(&self) -> bool {
        matches!(self.levels.last(), Some(Level::Threads { .. }))
    }

    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn truncate(&mut self, depth: usize) {
        self.levels.truncate(depth);
    }

    /// Starts a loop with unordered iterations; regions from number `newer` on belong to single
    /// iterations.
    pub(super) fn enter_tasks(&mut self, newer: usize, what: &'static str) {
        self.levels.push(Level::Tasks { current: 0, newer, shadows: Shadows::default(), what });
    }

    /// Starts the next iteration.
    pub(super) fn next_task(&mut self) {
        if let Some(Level::Tasks { current, .. }) = self.levels.last_mut() {
            *current += 1;
        }
    }

    /// Starts a block of threads.
    pub(super) fn enter_threads(&mut self, threads: u32, warp_size: u32) {
        let warps = threads.div_ceil(warp_size) as usize;
        self.levels.push(Level::Threads {
            current: 0,
            warp_size,
            epoch: 0,
            warp_epochs: vec![0; warps],
            shadows: Shadows::default(),
        });
    }

    /// Sets the running thread of the block, counted from 0.
    pub(super) fn run_thread(&mut self, thread: u32) {
        if let Some(Level::Threads { current, .. }) = self.levels.last_mut() {
            *current = thread + 1;
        }
    }

    /// Records a barrier of all threads of the block.
    pub(super) fn barrier(&mut self) {
        if let Some(Level::Threads { epoch, .. }) = self.levels.last_mut() {
            *epoch += 1;
        }
    }

    /// Records a barrier of all threads of a warp.
    pub(super) fn warp_barrier(&mut self, warp: usize) {
        if let Some(Level::Threads { warp_epochs, .. }) = self.levels.last_mut() {
            warp_epochs[warp] += 1;
        }
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Records an access to bytes of a region of `length` bytes.
    pub(super) fn touch(
        &mut self,
        region: usize,
        bytes: Range<usize>,
        length: usize,
        private: bool,
        access: Access,
        stmt: u32,
    ) -> Result<(), Race> {
        for level in &mut self.levels {
            let conflict = match level {
                Level::Tasks { current, newer, shadows, what } if region < *newer => {
                    let (cells, unit) = shadows.cells(region, &bytes, length);
                    cells.iter_mut().enumerate().find_map(|(position, cell)| {
                        let conflict = touch_task(cell, *current, access, stmt, what).err()?;
                        Some((bytes.start + position * unit, conflict))
                    })
                }
                Level::Threads { current, warp_size, epoch, warp_epochs, shadows } if !private => {
                    let warp = (*current - 1) / *warp_size;
                    let now = Touch { thread: *current, epoch: *epoch, warp_epoch: warp_epochs[warp as usize], stmt };
                    let (cells, unit) = shadows.cells(region, &bytes, length);
                    cells.iter_mut().enumerate().find_map(|(position, cell)| {
                        let conflict = touch_thread(cell, now, *warp_size, access).err()?;
                        Some((bytes.start + position * unit, conflict))
                    })
                }
                _ => None,
            };
            if let Some((byte, (text, other))) = conflict {
                self.other = Some(other);
                return Err(Race { byte, text });
            }
        }
        Ok(())
    }
}

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
    }
}

fn touch_task(seen: &mut Task, current: u32, access: Access, stmt: u32, what: &str) -> Result<(), (String, u32)> {
    if seen.writer == current {
        return Ok(());
    }
    let (now, verb) = (current - 1, verb(access));
    if seen.writer != 0 && seen.writer != current {
        let other = seen.writer - 1;
        return Err((format!("{what} {now} {verb} what {what} {other} writes"), seen.writer_stmt));
    }
    match access {
        Access::Read => {
            if seen.reader == 0 {
                (seen.reader, seen.reader_stmt) = (current, stmt);
            } else if seen.reader != current {
                seen.reader = u32::MAX;
            }
        }
        Access::Write => {
            if seen.reader != 0 && seen.reader != current {
                let other = match seen.reader {
                    u32::MAX => "several others".to_owned(),
                    reader => format!("{what} {}", reader - 1),
                };
                return Err((format!("{what} {now} {verb} what {other} read"), seen.reader_stmt));
            }
            (seen.writer, seen.writer_stmt) = (current, stmt);
        }
    }
    Ok(())
}

fn touch_thread(seen: &mut Thread, now: Touch, warp_size: u32, access: Access) -> Result<(), (String, u32)> {
    let ours = seen.write.thread == now.thread && seen.write.epoch == now.epoch;
    if ours && seen.read.thread == now.thread && seen.readers == Readers::One && seen.write.warp_epoch == now.warp_epoch
    {
        seen.read = if access == Access::Read { now } else { seen.read };
        return Ok(());
    }
    let same_warp = |other: &Touch| (other.thread - 1) / warp_size == (now.thread - 1) / warp_size;
    // Two accesses are ordered if there is a barrier in between.
    let ordered = |other: &Touch| other.epoch < now.epoch || same_warp(other) && other.warp_epoch < now.warp_epoch;
    let this = || format!("thread {} {}", now.thread - 1, verb(access));
    let write = &seen.write;
    if write.thread != 0 && write.thread != now.thread && !ordered(write) {
        return Err((
            format!("{} what thread {} writes without a barrier between", this(), write.thread - 1),
            write.stmt,
        ));
    }
    let read = &seen.read;
    let none = read.thread == 0 || read.epoch < now.epoch;
    match access {
        Access::Read => {
            let all_before = none
                || match seen.readers {
                    Readers::One => read.thread == now.thread || ordered(read),
                    Readers::Warp => ordered(read),
                    Readers::Many => false,
                };
            if all_before {
                (seen.read, seen.readers) = (now, Readers::One);
            } else if seen.readers != Readers::Many {
                seen.readers = if same_warp(read) { Readers::Warp } else { Readers::Many };
            }
        }
        Access::Write => {
            let conflict = !none
                && match seen.readers {
                    Readers::One => read.thread != now.thread && !ordered(read),
                    Readers::Warp => !ordered(read),
                    Readers::Many => true,
                };
            if conflict {
                let who = match seen.readers {
                    Readers::One => format!("thread {}", read.thread - 1),
                    _ => "several threads".to_owned(),
                };
                return Err((format!("{} what {who} read without a barrier between", this()), read.stmt));
            }
            seen.write = now;
        }
    }
    Ok(())
}
