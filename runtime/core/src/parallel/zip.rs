//! Loops over the items of operands.

use core::marker::PhantomData;
use core::ops::Range;

use super::domain::Order;
use super::names::Names;
use super::operand::{Asked, Operands};
use super::outcome::{Outcome, Yield};
use super::pace::{self, Pace};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Number of elements that [`Zip::reduce`] combines before it merges results, if no grain is set.
const REDUCED: usize = 1 << 14;

/// Operands whose items are visited together; see [`zip`].
#[must_use = "nothing runs before `for_each`, `map` or `reduce`"]
pub struct Zip<'a, O> {
    operands: O,
    pace: Pace,
    borrowed: PhantomData<&'a ()>,
}

/// A loop over the items of an operand, or of several in a tuple: slices, vectors, arrays and
/// tensor views, for reading (`&`) or for writing (`&mut`), and [`rows`](super::rows) of views.
///
/// Read-only operands are broadcast to the common shape, as in NumPy: compared from the last axis
/// on, 1 and a missing axis are compatible with every length. Written operands must have that shape
/// themselves. Strides do not matter, but the items of a written operand must not share memory (as
/// in a broadcast view of NumPy).
///
/// ```
/// use kernpack::parallel::zip;
///
/// let x = vec![1.0f32; 1000];
/// let mut y = vec![2.0f32; 1000];
/// zip((&x, &mut y)).for_each(|(x, y)| *y += 3.0 * x)?;
/// assert_eq!(y[999], 5.0);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[inline]
pub fn zip<'a, O: Operands<'a>>(operands: O) -> Zip<'a, O> {
    Zip { operands, pace: Pace::default(), borrowed: PhantomData }
}

impl<'a, O: Operands<'a>> Zip<'a, O> {
    /// Sets the minimum number of items that a thread takes at a time; 1 if each item is long work.
    /// Without it, the clock decides: the loop starts on this thread, and the remaining work is
    /// shared if it takes longer than sharing costs.
    #[inline]
    pub fn grain(mut self, items: usize) -> Self {
        self.pace.grain = Some(items);
        self
    }

    /// Sets the maximum number of threads, including this one. With 1, the loop runs on this
    /// thread.
    #[inline]
    pub fn threads(mut self, most: usize) -> Self {
        self.pace.threads = Some(most);
        self
    }

    /// Calls `body` once for the items at each index, on several threads and in no particular
    /// order.
    ///
    /// # Errors
    /// Returns a ValueError if the operands are incompatible, an error that `body` returns, which
    /// stops the loop (of several, that of the lowest indices), or an InternalError if it panics.
    /// Items that were visited before are then already written.
    #[inline]
    pub fn for_each<R: Outcome>(self, body: impl Fn(O::Items) -> R + Sync) -> Result<()> {
        self.run(Order::Any, Names::Numbers, |_, items| body(items))
    }

    /// Like [`for_each`](Self::for_each), with the index of the items in row-major order of the
    /// common shape.
    ///
    /// # Errors
    /// As for [`for_each`](Self::for_each).
    #[inline]
    pub fn for_each_indexed<R: Outcome>(self, body: impl Fn(usize, O::Items) -> R + Sync) -> Result<()> {
        self.run(Order::RowMajor, Names::Numbers, body)
    }

    /// Returns a new tensor of the common shape with the results of `body` for the items at each
    /// index. Its memory comes from the environment's allocator, if a framework has set one.
    ///
    /// ```
    /// use kernpack::Tensor;
    /// use kernpack::parallel::zip;
    ///
    /// let x = Tensor::from_vec(vec![1.0f64, 4.0, 9.0], &[3])?;
    /// let roots = zip(&x.view::<f64>()?).map(|x| x.sqrt())?;
    /// assert_eq!(roots.view::<f64>()?.to_vec(), [1.0, 2.0, 3.0]);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`for_each`](Self::for_each), and the allocator's error.
    #[inline]
    pub fn map<R: Yield>(self, body: impl Fn(O::Items) -> R + Sync) -> Result<Tensor> {
        self.map_named(Names::Numbers, body)
    }

    /// Reduces all items to one value: `fold` adds items to a value that starts as `identity`, and
    /// `combine` combines two such values.
    ///
    /// The result is the same in each run, regardless of the number of threads, even for sums of
    /// floating-point numbers: pieces of a fixed length (the [`grain`](Self::grain); without it, as
    /// many items as have 16384 elements, at least one) are folded from the first item to the last,
    /// in row-major order, and their values are combined from the first piece to the last:
    /// `combine(combine(first, second), third)`.
    ///
    /// ```
    /// use kernpack::parallel::zip;
    ///
    /// let (x, y) = (vec![1.0f32, 2.0, 3.0], vec![4.0f32, 5.0, 6.0]);
    /// let dot = zip((&x, &y)).reduce(|| 0.0f64, |sum, (x, y)| *sum += f64::from(x * y), |a, b| a + b)?;
    /// assert_eq!(dot, 32.0);
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns a ValueError if the operands are incompatible, or an InternalError if a closure
    /// panics.
    #[inline]
    pub fn reduce<A: Send>(
        self,
        identity: impl Fn() -> A + Sync,
        fold: impl Fn(&mut A, O::Items) + Sync,
        combine: impl Fn(A, A) -> A,
    ) -> Result<A> {
        let domain = self.operands.domain(Asked { order: Order::RowMajor, names: Names::Numbers })?;
        let (len, weight, _) = O::measure(&domain);
        let piece = self.pace.grain.unwrap_or(REDUCED / weight).max(1);
        let value = |range: Range<usize>| {
            let mut value = identity();
            // SAFETY: each piece is folded once.
            let Ok(()) = unsafe {
                O::each(&domain, range, |_, items| {
                    fold(&mut value, items);
                    Ok::<(), core::convert::Infallible>(())
                })
            };
            value
        };
        reduce_pieces(0..len, piece, self.pace.threads, &value, &identity, combine)
    }

    #[inline]
    pub(super) fn map_named<R: Yield>(self, names: Names<'_>, body: impl Fn(O::Items) -> R + Sync) -> Result<Tensor> {
        let domain = self.operands.domain(Asked { order: Order::RowMajor, names })?;
        let (len, weight, shape) = O::measure(&domain);
        let (tensor, first) = Tensor::for_results::<R::Value>(shape)?;
        let results = Results(first);
        pace::run(0..len, weight, self.pace, &|range| {
            let results = &results;
            let body = &body;
            // SAFETY: every index is in one range only; each result has its place in the tensor,
            // which no other code uses yet.
            unsafe {
                O::each(&domain, range, |index, items| body(items).value().map(|value| results.set(index, value)))
            }
            .map_err(R::error)
        })?;
        Ok(tensor)
    }

    #[inline]
    pub(super) fn run<R: Outcome>(
        self,
        order: Order,
        names: Names<'_>,
        body: impl Fn(usize, O::Items) -> R + Sync,
    ) -> Result<()> {
        let domain = self.operands.domain(Asked { order, names })?;
        let (len, weight, _) = O::measure(&domain);
        pace::run(0..len, weight, self.pace, &|range| {
            let body = &body;
            // SAFETY: every index is in one range only.
            unsafe { O::each(&domain, range, |index, items| body(index, items).outcome()) }.map_err(R::error)
        })
    }
}

/// The buffer for the results of a map.
struct Results<T>(*mut T);

// SAFETY: each thread writes plain numbers to different places.
unsafe impl<T: Send> Sync for Results<T> {}

impl<T> Results<T> {
    /// # Safety
    /// The place is in the tensor, and no other code uses it now.
    #[inline(always)]
    unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: promised by the caller.
        unsafe { self.0.add(index).write(value) }
    }
}

/// Computes a value for each piece of `range`, and combines them from the first to the last.
#[inline]
pub(super) fn reduce_pieces<A: Send>(
    range: Range<usize>,
    piece: usize,
    threads: Option<usize>,
    value: &(dyn Fn(Range<usize>) -> A + Sync),
    identity: &dyn Fn() -> A,
    combine: impl Fn(A, A) -> A,
) -> Result<A> {
    let pieces = range.len().div_ceil(piece);
    let mut values: Vec<Option<A>> = Vec::new();
    values.try_reserve_exact(pieces).map_err(|_| out_of_memory(pieces))?;
    values.resize_with(pieces, || None);
    let places = Results(values.as_mut_ptr());
    pace::run(0..pieces, 1, Pace { grain: None, threads }, &|numbers| {
        let places = &places;
        for number in numbers {
            let start = range.start + number * piece;
            let end = start.saturating_add(piece).min(range.end);
            // SAFETY: each piece has its own place, which no other code uses until the loop has
            // ended; there is no value in it yet.
            unsafe { places.set(number, Some(value(start..end))) };
        }
        Ok(())
    })?;
    crate::function::caught(|| Ok(values.into_iter().flatten().reduce(combine).unwrap_or_else(identity)))
}

#[cold]
#[inline]
fn out_of_memory(pieces: usize) -> Error {
    crate::error!(MemoryError, "out of memory for the values of {pieces} pieces; take a larger grain")
}
