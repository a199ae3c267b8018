//! When a loop is worth other threads, and in how large pieces they take it.
//!
//! Without a grain, a loop begins on its caller's thread and looks at the clock: what remains is shared only when it would take longer than
//! sharing costs, and no piece is so small that taking it counts. So a cheap function on a small tensor costs no more than a plain loop, and an
//! expensive one on a few rows is shared all the same.

use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

use super::job::{self, Body};
use super::pool;
use crate::Result;

/// Into how many pieces for each thread a loop is cut at least, where they are not too small: threads that are slower, or come later, take fewer.
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

/// An item of so many elements is worth a piece, whatever is done with it; it is not waited for to find that out.
const LONG_ROW: usize = 1 << 14;

/// Pieces of more than so many elements end where a cache line does.
const ALIGNED: usize = 64;

/// Settings of a loop by its user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Minimum number of items of a piece; `None`: measured by the clock.
    pub(super) grain: Option<usize>,
    /// Maximum number of threads; `None`: as many as the pool has.
    pub(super) threads: Option<usize>,
}

/// Runs `body` for all of `range`, on this thread or on several. `weight` is the number of elements of an item.
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

/// In pieces of at least `smallest` items.
#[inline]
fn shared(range: Range<usize>, smallest: usize, threads: usize, body: &Body<'_>) -> Result<()> {
    let fair = range.len().div_ceil(threads.saturating_mul(PIECES_PER_THREAD));
    let piece = match smallest.max(fair) {
        piece if piece > ALIGNED && piece > smallest => piece.next_multiple_of(ALIGNED),
        piece => piece,
    };
    if piece >= range.len() { job::run_here(range, body) } else { job::run(range, piece, threads, body) }
}

/// Begins here, and shares what is worth it.
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
            // Four times as much in all, up to what is left: a few looks at the clock, and most of it is still to be shared.
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
