//! The iteration domain of a loop: the common shape of all operands, and the addresses of their
//! items at each index.

use core::ops::Range;

use super::names::Names;
use crate::Result;

/// The memory layout of an operand's elements.
#[derive(Clone, Copy)]
pub struct Extent<'a> {
    pub(super) first: *mut u8,
    pub(super) shape: Sizes<'a>,
    /// Strides in elements; `None` means row major without gaps.
    pub(super) strides: Option<&'a [i64]>,
    /// Size of an element in bytes.
    pub(super) size: usize,
    pub(super) writes: bool,
    /// True if an item is a row: the whole last axis.
    pub(super) is_rows: bool,
}

/// The shape of an operand.
#[derive(Clone, Copy)]
pub(super) enum Sizes<'a> {
    Slice(i64),
    Tensor(&'a [i64]),
}

/// The order in which the items may be visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// In the order of memory.
    Any,
    /// Row major, in the order of the indices.
    RowMajor,
}

/// The indices of a loop over `N` operands.
pub struct Domain<const N: usize> {
    /// Number of items of each operand.
    pub(super) len: usize,
    /// The common shape of the operands.
    pub(super) shape: Vec<i64>,
    /// Number of elements of the longest item.
    pub(super) weight: usize,
    first: [*mut u8; N],
    /// Number of elements of an item, for each operand: the length of a row, else 1.
    pub(super) rows: [usize; N],
    /// The axes from the outermost to the innermost; at least one.
    axes: Vec<Axis<N>>,
}

#[derive(Clone, Copy)]
struct Axis<const N: usize> {
    dimension: usize,
    /// Bytes from one item to the next, for each operand.
    steps: [isize; N],
}

// SAFETY: the addresses belong to operands whose items may be used on any thread; the user of the
// domain keeps the operands alive.
unsafe impl<const N: usize> Sync for Domain<N> {}

impl Extent<'_> {
    #[inline]
    fn whole_shape(&self) -> &[i64] {
        match &self.shape {
            Sizes::Slice(len) => core::slice::from_ref(len),
            Sizes::Tensor(shape) => shape,
        }
    }

    /// The axes that the loop iterates over; `None` for rows of a tensor without axes.
    #[inline]
    fn shape(&self) -> Option<&[i64]> {
        let whole = self.whole_shape();
        if self.is_rows { whole.split_last().map(|(_, rest)| rest) } else { Some(whole) }
    }

    /// The stride of each axis, in elements.
    #[inline]
    fn strides(&self) -> Vec<i64> {
        match self.strides {
            Some(strides) => strides.to_vec(),
            None => {
                let shape = self.whole_shape();
                let mut strides = vec![1i64; shape.len()];
                for axis in (1..shape.len()).rev() {
                    strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
                }
                strides
            }
        }
    }

    /// Returns whether the strides equal those of row-major order, including the strides of axes of
    /// length 1, which have no effect.
    #[inline]
    fn has_no_gaps(&self) -> bool {
        let mut expected = 1i64;
        self.strides.is_none_or(|strides| {
            self.whole_shape().iter().zip(strides).rev().all(|(dimension, stride)| {
                let is_expected = *stride == expected;
                expected = expected.wrapping_mul(*dimension);
                is_expected
            })
        })
    }

    /// Returns whether two indices lead to one address, or may do so.
    #[inline]
    fn overlaps_itself(&self, strides: &[i64]) -> bool {
        let mut axes: Vec<(i128, i128)> = self
            .whole_shape()
            .iter()
            .zip(strides)
            .filter(|(dimension, _)| **dimension > 1)
            .map(|(dimension, stride)| (i128::from(*stride).abs(), i128::from(*dimension)))
            .collect();
        axes.sort_unstable();
        let mut reach = 0i128;
        axes.into_iter().any(|(stride, dimension)| {
            let overlaps = stride <= reach;
            reach = reach.saturating_add((dimension - 1).saturating_mul(stride));
            overlaps
        })
    }
}

impl<const N: usize> Domain<N> {
    /// Creates the domain of a loop over these operands. Read-only operands are broadcast to a
    /// common shape as in NumPy; written operands must have that shape.
    #[inline]
    pub(super) fn new(operands: [Extent<'_>; N], order: Order, names: Names<'_>) -> Result<Self> {
        if let Some(domain) = Self::of_elements_without_gaps(&operands) {
            return Ok(domain);
        }
        let shape = common_shape(&operands, names)?;
        let mut rows = [1usize; N];
        for (row, operand) in rows.iter_mut().zip(&operands) {
            if operand.is_rows {
                *row = operand.whole_shape().last().map_or(0, |len| *len as usize);
            }
        }
        let mut domain = Self {
            len: 0,
            weight: rows.iter().copied().max().unwrap_or(1).max(1),
            first: operands.each_ref().map(|operand| operand.first),
            rows,
            axes: Vec::with_capacity(shape.len().max(1)),
            shape,
        };
        let len = domain.shape.iter().try_fold(1usize, |len, dimension| len.checked_mul(*dimension as usize));
        domain.len = match len {
            _ if domain.shape.contains(&0) => 0,
            Some(len) => len,
            None => return Err(names.error(&format!("the common shape {:?} is larger than memory", domain.shape))),
        };
        if domain.len > 0 {
            domain.add_axes(&operands, order, names)?;
        }
        if domain.axes.is_empty() {
            domain.axes.push(Axis { dimension: domain.len, steps: [0; N] });
        }
        Ok(domain)
    }

    /// Creates the domain of operands that all have one shape and no gaps between their elements:
    /// one axis, regardless of the order.
    #[inline]
    fn of_elements_without_gaps(operands: &[Extent<'_>; N]) -> Option<Self> {
        let shape = operands.first()?.whole_shape();
        let is_plain =
            |operand: &Extent<'_>| !operand.is_rows && operand.whole_shape() == shape && operand.has_no_gaps();
        if !operands.iter().all(is_plain) {
            return None;
        }
        // At most the number of elements of an operand.
        let len = shape.iter().map(|dimension| *dimension as usize).product();
        Some(Self {
            len,
            shape: shape.to_vec(),
            weight: 1,
            first: operands.each_ref().map(|operand| operand.first),
            rows: [1; N],
            axes: vec![Axis { dimension: len, steps: operands.each_ref().map(|operand| operand.size as isize) }],
        })
    }

    /// Adds the axes along which an address changes; merges axes if that does not change the
    /// iteration.
    #[inline]
    fn add_axes(&mut self, operands: &[Extent<'_>; N], order: Order, names: Names<'_>) -> Result<()> {
        let mut axes: Vec<Axis<N>> =
            self.shape.iter().map(|dimension| Axis { dimension: *dimension as usize, steps: [0; N] }).collect();
        for (number, operand) in operands.iter().enumerate() {
            let strides = operand.strides();
            let has_elements = !operand.whole_shape().contains(&0);
            if has_elements {
                check_memory(operand, &strides, number, names)?;
            }
            let shape = operand.shape().unwrap_or_default();
            let missing = axes.len() - shape.len();
            for ((axis, dimension), stride) in axes[missing..].iter_mut().zip(shape).zip(&strides) {
                if *dimension != 1 && has_elements {
                    axis.steps[number] = (*stride as isize).wrapping_mul(operand.size as isize);
                }
            }
        }
        axes.retain(|axis| axis.dimension != 1);
        if order == Order::Any {
            let leader = operands.iter().position(|operand| operand.writes).unwrap_or(0);
            axes.sort_by_key(|axis| core::cmp::Reverse(axis.steps[leader].unsigned_abs()));
        }
        for axis in axes {
            match self.axes.last_mut() {
                Some(outer) if joins(outer, &axis) => {
                    outer.dimension *= axis.dimension;
                    outer.steps = axis.steps;
                }
                _ => self.axes.push(axis),
            }
        }
        Ok(())
    }

    /// Calls `run` for the items in `range`, in order, with the index of the first item, its
    /// addresses, the distances in bytes to the next items, and the number of items.
    #[inline]
    pub(super) fn runs<E>(
        &self,
        range: Range<usize>,
        mut run: impl FnMut(usize, [*mut u8; N], &[isize; N], usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((inner, outer)) = self.axes.split_last() else { return Ok(()) };
        if outer.is_empty() {
            let at = core::array::from_fn(|n| {
                self.first[n].wrapping_byte_offset(inner.steps[n].wrapping_mul(range.start as isize))
            });
            return run(range.start, at, &inner.steps, range.len());
        }
        // The index at the start of the range.
        let mut index = vec![0usize; self.axes.len()];
        let mut at = self.first;
        let mut rest = range.start;
        for (axis, index) in self.axes.iter().zip(&mut index).rev() {
            *index = rest % axis.dimension;
            rest /= axis.dimension;
            for (at, step) in at.iter_mut().zip(&axis.steps) {
                *at = at.wrapping_byte_offset(step.wrapping_mul(*index as isize));
            }
        }
        let last = outer.len();
        let mut start = range.start;
        while start < range.end {
            let count = (range.end - start).min(inner.dimension - index[last]);
            run(start, at, &inner.steps, count)?;
            start += count;
            // Back to the first item of this run's line, then to the next line.
            for (at, step) in at.iter_mut().zip(&inner.steps) {
                *at = at.wrapping_byte_offset(step.wrapping_mul(index[last] as isize).wrapping_neg());
            }
            index[last] = 0;
            for (axis, index) in outer.iter().zip(&mut index[..last]).rev() {
                *index += 1;
                let is_over = *index == axis.dimension;
                let moves = if is_over { 1 - axis.dimension as isize } else { 1 };
                for (at, step) in at.iter_mut().zip(&axis.steps) {
                    *at = at.wrapping_byte_offset(step.wrapping_mul(moves));
                }
                if !is_over {
                    break;
                }
                *index = 0;
            }
        }
        Ok(())
    }
}

/// Returns whether the two axes can be merged into one without changing the iteration.
#[inline]
fn joins<const N: usize>(outer: &Axis<N>, inner: &Axis<N>) -> bool {
    let length = inner.dimension as isize;
    outer.steps.iter().zip(&inner.steps).all(|(outer, inner)| inner.checked_mul(length) == Some(*outer))
}

/// Returns the shape that all operands are broadcast to, as in NumPy: compared from the last axis
/// on, 1 and a missing axis are compatible with every length.
#[inline]
fn common_shape(operands: &[Extent<'_>], names: Names<'_>) -> Result<Vec<i64>> {
    let mut shapes = Vec::with_capacity(operands.len());
    for (number, operand) in operands.iter().enumerate() {
        let Some(shape) = operand.shape() else {
            let message =
                format!("{} has no dimensions, so it has no rows; give it the shape of one row", names.of(number));
            return Err(names.error(&message));
        };
        shapes.push(shape);
    }
    let ndim = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut common = vec![1i64; ndim];
    // The operand that determined each dimension.
    let mut owner = vec![0usize; ndim];
    for (number, shape) in shapes.iter().enumerate() {
        let missing = ndim - shape.len();
        for (axis, dimension) in shape.iter().enumerate().map(|(axis, dimension)| (missing + axis, *dimension)) {
            if common[axis] == 1 && dimension != 1 {
                common[axis] = dimension;
                owner[axis] = number;
            } else if dimension != 1 && dimension != common[axis] {
                let message = format!(
                    "{} and {} do not fit together: {} and {dimension} along axis {}",
                    subject(operands, owner[axis], names),
                    subject(operands, number, names),
                    common[axis],
                    axis as isize - ndim as isize
                );
                return Err(names.error(&message));
            }
        }
    }
    for (number, shape) in shapes.iter().enumerate() {
        if operands[number].writes && **shape != *common {
            let message = format!(
                "{} is written to, so it cannot be broadcast to the common shape {common:?} of the operands",
                subject(operands, number, names)
            );
            return Err(names.error(&message));
        }
    }
    Ok(common)
}

/// Names an operand for messages: `argument 'x' of shape [2, 3]`,
/// `the rows of argument 'x' of shape [2, 3]`.
#[inline]
fn subject(operands: &[Extent<'_>], number: usize, names: Names<'_>) -> String {
    let operand = &operands[number];
    let rows = if operand.is_rows { "the rows of " } else { "" };
    format!("{rows}{} of shape {:?}", names.of(number), operand.whole_shape())
}

/// Checks that rows are slices, and that each address is written at most once.
#[inline]
fn check_memory(operand: &Extent<'_>, strides: &[i64], number: usize, names: Names<'_>) -> Result<()> {
    let shape = operand.whole_shape();
    if operand.is_rows && shape.last().is_some_and(|len| *len > 1) && strides.last() != Some(&1) {
        let message = format!(
            "the rows of {} are not contiguous: shape {shape:?}, strides {strides:?} (in elements); pass a contiguous copy, for example \
             numpy.ascontiguousarray(x)",
            names.of(number)
        );
        return Err(names.error(&message));
    }
    if operand.writes && operand.strides.is_some() && operand.overlaps_itself(strides) {
        let message = format!(
            "elements of {} share memory with each other, so they cannot be written to at the same time: shape {shape:?}, strides \
             {strides:?} (in elements); pass a copy",
            names.of(number)
        );
        return Err(names.error(&message));
    }
    Ok(())
}
