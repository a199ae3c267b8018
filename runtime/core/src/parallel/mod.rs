//! Loops over slices and tensors on all CPUs, for kernels in Rust.
//!
//! ```
//! use kernpack::parallel::{rows, zip};
//! use kernpack::{Result, TensorView, TensorViewMut, packed_func};
//!
//! /// Subtracts the mean of each row from it.
//! #[packed_func(name = "docs.center")]
//! fn center(x: TensorView<f32>, mut out: TensorViewMut<f32>) -> Result<()> {
//!     zip((rows(&x), rows(&mut out))).for_each(|(x, out)| {
//!         let mean = x.iter().sum::<f32>() / x.len() as f32;
//!         out.iter_mut().zip(x).for_each(|(out, x)| *out = x - mean);
//!     })
//! }
//! ```
//!
//! - [`zip`] iterates over the elements, or the [`rows`], of slices and tensor views:
//!   [`Zip::for_each`], [`Zip::map`], [`Zip::reduce`].
//! - [`chunks_mut`] splits a slice; [`for_range`] and [`reduce_range`] split a range of indices.
//!
//! `#[packed_func(parallel)]` generates such a loop from a function for one element or row.
//!
//! All of them return after every call of the closure has ended. An error that the closure returns
//! stops the loop and is its result; a panic is an InternalError with its message and location,
//! regardless of the thread. A loop inside a loop runs on the current thread.
//!
//! The threads belong to the process's single pool, which also serves the parallel loops of
//! libraries compiled by Apache TVM if Kernpack loads them. Its size is `TVM_NUM_THREADS`, else
//! `OMP_NUM_THREADS`, else one thread for each CPU of the affinity mask. The threads start with the
//! first loop that needs them. The calling thread is one of them, and never waits for a thread that
//! has not begun.

mod domain;
mod job;
pub(crate) mod kernel;
mod names;
mod operand;
mod outcome;
mod pace;
mod pool;
mod zip;

use core::ops::Range;

use self::pace::Pace;
use crate::Result;

pub use self::operand::{Operand, Operands, Rows, rows};
pub use self::outcome::{Outcome, Yield};
pub use self::zip::{Zip, zip};

/// Number of threads that run a loop that starts here, if it is long enough, including this one. 1
/// inside a loop.
#[inline]
pub fn threads() -> usize {
    pool::threads()
}

/// Calls `body` for ranges that together cover `range`, on several threads and in no particular
/// order. Each range has at least `grain` indices, except possibly the last one. Choose a grain
/// whose work takes longer than calling a thread, some 5 µs. A range that is not longer than the
/// grain is one call on this thread.
///
/// ```
/// use core::sync::atomic::{AtomicUsize, Ordering};
///
/// let primes = AtomicUsize::new(0);
/// kernpack::parallel::for_range(2..10_000, 500, |range| {
///     let count = range.filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count();
///     primes.fetch_add(count, Ordering::Relaxed);
/// })?;
/// assert_eq!(primes.into_inner(), 1229);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns the error of `body`, which stops the loop (of several errors, that of the lowest range),
/// or an InternalError if it panics.
#[inline]
pub fn for_range<R: Outcome>(range: Range<usize>, grain: usize, body: impl Fn(Range<usize>) -> R + Sync) -> Result<()> {
    let pace = Pace { grain: Some(grain), threads: None };
    pace::run(range, 1, pace, &|part| body(part).outcome().map_err(R::error))
}

/// Reduces `range` to one value: `value` computes one for each piece of `grain` indices (the last
/// one may be shorter), and `combine` combines two, from the first piece to the last, so that the
/// result does not depend on the number of threads. `identity` is the value of an empty range.
///
/// ```
/// let sum = kernpack::parallel::reduce_range(0..1000, 100, || 0, |range| range.sum::<usize>(), |a, b| a + b)?;
/// assert_eq!(sum, 499_500);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns an InternalError if a closure panics, and a MemoryError if there is not enough memory
/// for the values of all pieces.
#[inline]
pub fn reduce_range<A: Send>(
    range: Range<usize>,
    grain: usize,
    identity: impl Fn() -> A,
    value: impl Fn(Range<usize>) -> A + Sync,
    combine: impl Fn(A, A) -> A,
) -> Result<A> {
    zip::reduce_pieces(range, grain.max(1), None, &value, &identity, combine)
}

/// Calls `body` for pieces of `data`, each `len` long except possibly the last, with the number of
/// the piece; on several threads and in no particular order.
///
/// ```
/// let mut image = vec![0u8; 640 * 480];
/// kernpack::parallel::chunks_mut(&mut image, 640, |y, row| row.fill(y as u8))?;
/// assert_eq!(image[639..641], [0, 1]);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns a ValueError for a `len` of 0, an error that `body` returns, which stops the loop (of
/// several, that of the lowest piece), or an InternalError if it panics.
#[inline]
pub fn chunks_mut<T: Send, R: Outcome>(
    data: &mut [T],
    len: usize,
    body: impl Fn(usize, &mut [T]) -> R + Sync,
) -> Result<()> {
    crate::ensure!(len > 0, ValueError, "pieces of 0 elements never end");
    let (all, pieces) = (data.len(), data.len().div_ceil(len));
    let first = Shared(data.as_mut_ptr());
    pace::run(0..pieces, len.min(all), Pace::default(), &|numbers| {
        let first = &first;
        for number in numbers {
            let start = number * len;
            // SAFETY: every number occurs once, so no other code uses this part of `data`, which is
            // borrowed until the loop has ended.
            let chunk = unsafe { core::slice::from_raw_parts_mut(first.0.add(start), len.min(all - start)) };
            body(number, chunk).outcome().map_err(R::error)?;
        }
        Ok(())
    })
}

/// The address of a slice that is divided among threads.
struct Shared<T>(*mut T);

// SAFETY: each thread gets different elements, and these are `Send`.
unsafe impl<T: Send> Sync for Shared<T> {}

#[cfg(test)]
mod tests;
