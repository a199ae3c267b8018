//! The execution of one loop: distribution of pieces to threads, and handling of failed pieces.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::pool;
use crate::function::caught;
use crate::thread_pool::TVMParallelGroupEnv;
use crate::{Error, Result};

/// The loop body, which processes a range of the indices.
pub(super) type Body<'a> = dyn Fn(Range<usize>) -> Result<()> + Sync + 'a;

/// A loop over `range` in pieces of `piece` indices; the last one may be shorter. Free threads take
/// the next piece.
struct Job<'a> {
    body: &'a Body<'a>,
    range: Range<usize>,
    piece: usize,
    pieces: usize,
    next: Next,
    has_failed: AtomicBool,
    /// The error of the failed piece with the lowest number.
    failure: Mutex<Option<(usize, Error)>>,
}

/// The number of the next piece. On its own cache line, because all threads change it while they
/// read the rest.
#[repr(align(64))]
struct Next(AtomicUsize);

/// Runs `body` for all of `range` on this thread. A panic becomes an error.
#[inline]
pub(super) fn run_here(range: Range<usize>, body: &Body<'_>) -> Result<()> {
    caught(|| body(range))
}

/// Runs `body` for pieces of `range` on up to `threads` threads, including this one. When this
/// returns, no thread runs `body`.
///
/// # Errors
/// Returns the error of the lowest failed piece; a panic is an InternalError. No piece begins after
/// a failure.
#[inline]
pub(super) fn run(range: Range<usize>, piece: usize, threads: usize, body: &Body<'_>) -> Result<()> {
    let piece = piece.max(1);
    let pieces = range.len().div_ceil(piece);
    let tasks = threads.min(pieces);
    let job = Job {
        body,
        range,
        piece,
        pieces,
        next: Next(AtomicUsize::new(0)),
        has_failed: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    if tasks <= 1 {
        job.take_pieces();
    } else {
        // SAFETY: `take_pieces` uses the job by shared reference from any threads, and `launch`
        // returns after all of them have ended.
        unsafe { pool::launch(take_pieces, (&raw const job).cast_mut().cast(), tasks)? };
    }
    match job.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some((_, error)) => Err(error),
    }
}

/// A task of the pool. Errors are stored in the job.
#[inline]
unsafe extern "C" fn take_pieces(_task: c_int, _environment: *mut TVMParallelGroupEnv, job: *mut c_void) -> c_int {
    // SAFETY: `run` passes its job, which lives until the launch ends.
    unsafe { &*job.cast::<Job<'_>>() }.take_pieces();
    0
}

impl Job<'_> {
    #[inline]
    fn take_pieces(&self) {
        while !self.has_failed.load(Ordering::Relaxed) {
            // Each late thread increments it once more, far from an overflow.
            let number = self.next.0.fetch_add(1, Ordering::Relaxed);
            if number >= self.pieces {
                return;
            }
            let start = self.range.start + number * self.piece;
            let end = start.saturating_add(self.piece).min(self.range.end);
            if let Err(error) = run_here(start..end, self.body) {
                self.fail(number, error);
            }
        }
    }

    #[cold]
    #[inline]
    fn fail(&self, number: usize, error: Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
            *failure = Some((number, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_index_is_in_one_piece() {
        for (range, piece) in
            [(0..0, 1), (3..4, 1), (5..100, 7), (0..64, 64), (0..65, 64), (0..10, 0), (2..5, usize::MAX)]
        {
            let seen = Mutex::new(BTreeSet::new());
            run(range.clone(), piece, 4, &|part| {
                let mut seen = seen.lock().unwrap();
                assert!(part.clone().all(|index| seen.insert(index)), "an index came twice");
                assert!(part.len() <= piece.max(1));
                Ok(())
            })
            .unwrap();
            assert!(seen.into_inner().unwrap().into_iter().eq(range));
        }
    }

    #[test]
    fn the_ends_of_the_numbers() {
        let count = AtomicUsize::new(0);
        run(usize::MAX - 10..usize::MAX, 4, 4, &|part| {
            count.fetch_add(part.len(), Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(count.into_inner(), 10);
    }

    #[test]
    fn after_a_failure_nobody_begins() {
        let begun = AtomicUsize::new(0);
        let error = run(0..1_000_000, 1, 4, &|part| {
            begun.fetch_add(1, Ordering::Relaxed);
            if part.start == 3 { Err(crate::error!(ValueError, "index {}", part.start)) } else { Ok(()) }
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "ValueError: index 3");
        assert!(begun.into_inner() < 1_000_000);
    }

    #[test]
    fn loops_in_loops_run_on_their_thread() {
        let count = AtomicUsize::new(0);
        run(0..16, 1, 8, &|_| {
            let outer = std::thread::current().id();
            assert_eq!(pool::threads(), 1, "inside a loop there is one thread");
            run(0..16, 1, 8, &|part| {
                assert_eq!(std::thread::current().id(), outer);
                count.fetch_add(part.len(), Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(count.into_inner(), 256);
    }
}
