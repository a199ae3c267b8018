//! Decides whether a loop is shared with other threads, and the size of the pieces.
//!
//! Without a grain, a loop begins on its caller's thread and measures the time: the remaining work
//! is shared only if it would take longer than sharing costs, and pieces are large enough that the
//! cost of taking them does not matter. So a cheap function on a small tensor costs no more than a
//! plain loop, and an expensive one on a few rows is shared.

use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

use super::job::{self, Body};
use super::pool;
use crate::Result;

/// Minimum number of pieces per thread, unless the pieces become too small: threads that are
/// slower, or start late, take fewer.
const PIECES_PER_THREAD: usize = 8;

/// The remaining work is shared if that saves more than this: the time to wake the workers if they
/// sleep.
const COST: Duration = Duration::from_micros(15);

/// Duration of the measurement at the start of a loop.
const WATCHED: Duration = Duration::from_micros(2);

/// Maximum number of items before the first look at the clock.
const FIRST: usize = 256;

/// Minimum duration of a piece, if durations are known.
const PIECE: Duration = Duration::from_micros(5);

/// Number of elements from which an item is worth a piece, regardless of the work, so that no time
/// is measured.
const LONG_ROW: usize = 1 << 14;

/// Pieces of more elements than this end at a cache line boundary.
const ALIGNED: usize = 64;

/// Settings of a loop by its user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Minimum number of items of a piece; `None`: measured by the clock.
    pub(super) grain: Option<usize>,
    /// Maximum number of threads; `None`: as many as the pool has.
    pub(super) threads: Option<usize>,
}

/// Runs `body` for all of `range`, on this thread or on several. `weight` is the number of elements
/// of an item.
#[inline]
pub(super) fn run(range: Range<usize>, weight: usize, pace: Pace, body: &Body<'_>) -> Result<()> {
    if range.len() <= 1 {
        return if range.is_empty() { Ok(()) } else { job::run_here(range, body) };
    }
    let threads = pace.threads.unwrap_or(usize::MAX).min(pool::threads()).max(1);
    if threads == 1 {
        return job::run_here(range, body);
    }
    match pace.grain {
        Some(grain) => shared(range, grain.max(1), threads, body),
        None if weight >= LONG_ROW => shared(range, 1, threads, body),
        None => watched(range, threads, body),
    }
}

/// Shares the range in pieces of at least `smallest` items.
#[inline]
fn shared(range: Range<usize>, smallest: usize, threads: usize, body: &Body<'_>) -> Result<()> {
    let fair = range.len().div_ceil(threads.saturating_mul(PIECES_PER_THREAD));
    let piece = match smallest.max(fair) {
        piece if piece > ALIGNED && piece > smallest => piece.next_multiple_of(ALIGNED),
        piece => piece,
    };
    if piece >= range.len() { job::run_here(range, body) } else { job::run(range, piece, threads, body) }
}

/// Begins on this thread, and shares the rest if it is worth it.
#[inline]
fn watched(range: Range<usize>, threads: usize, body: &Body<'_>) -> Result<()> {
    let Range { start, end } = range;
    let clock = Instant::now();
    let mut done = start;
    let mut next = ((end - start) / 16).clamp(1, FIRST);
    loop {
        let part = done..done + next.min(end - done);
        done = part.end;
        job::run_here(part, body)?;
        if done == end {
            return Ok(());
        }
        let passed = clock.elapsed();
        if passed < WATCHED {
            // Four times as many items in total, up to the rest: the clock is read only a few
            // times, and most of the work remains to be shared.
            next = 3 * (done - start);
            continue;
        }
        let each = passed.as_nanos() as f64 / (done - start) as f64;
        let saved = each * (end - done) as f64 * (1.0 - 1.0 / threads as f64);
        if saved <= COST.as_nanos() as f64 {
            return job::run_here(done..end, body);
        }
        let smallest = (PIECE.as_nanos() as f64 / each).ceil() as usize;
        return shared(done..end, smallest.max(1), threads, body);
    }
}
