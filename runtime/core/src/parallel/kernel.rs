//! Functions that the expansion of `#[packed_func(parallel)]` calls.

use super::domain::Order;
use super::names::Names;
use super::operand::{Operand, Operands, rows};
use super::outcome::{Outcome, Yield};
use super::zip::{Zip, zip};
use crate::Result;
use crate::function::{FunctionInfo, arg};
use crate::layout::Element;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use crate::value::AnyView;

/// Calls the user's function for the items of the tensor arguments, whose parameters have these
/// indices. A `grain` of 0 means that none is set.
///
/// # Errors
/// Messages begin with the function's signature and contain the names of arguments.
#[inline]
pub fn parallel_for_each<'a, O: Operands<'a>, R: Outcome>(
    info: &'static FunctionInfo,
    parameters: &[usize],
    grain: usize,
    operands: O,
    body: impl Fn(O::Items) -> R + Sync,
) -> Result<()> {
    paced(operands, grain).run(Order::Any, Names::Parameters(info, parameters), |_, items| body(items))
}

/// Like [`parallel_for_each`], for a function that returns an element: the results become a new
/// tensor.
///
/// # Errors
/// As for [`parallel_for_each`].
#[inline]
pub fn parallel_map<'a, O: Operands<'a>, R: Yield>(
    info: &'static FunctionInfo,
    parameters: &[usize],
    grain: usize,
    operands: O,
    body: impl Fn(O::Items) -> R + Sync,
) -> Result<Tensor> {
    paced(operands, grain).map_named(Names::Parameters(info, parameters), body)
}

#[inline]
fn paced<'a, O: Operands<'a>>(operands: O, grain: usize) -> Zip<'a, O> {
    let loops = zip(operands);
    if grain == 0 { loops } else { loops.grain(grain) }
}

/// A value that each call of a parallel function can receive by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to each call of a parallel function",
    label = "not `Copy`, or not `Sync`",
    note = "take it by reference, as in `&str`, `&Vec<f32>`, `&TensorView<f32>`; of a tensor that the function goes over, `&f32` is an element and `&[f32]` a row"
)]
pub trait ForEachCall: Copy + Sync {}

impl<T: Copy + Sync> ForEachCall for T {}

/// Returns the value itself.
#[inline(always)]
pub fn for_each_call<T: ForEachCall>(value: T) -> T {
    value
}

// Only these two conversions have a bound that a user's type may not satisfy, and their result
// types hide it. So the compiler reports the error at that type first, and does not mention tuples
// and views.

/// A tensor that the function reads.
pub trait ReadTensor {
    /// Type of its elements.
    type Element: Element;
    /// Its elements as an operand.
    fn elements(&self) -> impl Operand<'_, Item = &Self::Element>;
    /// Its rows as an operand.
    fn rows(&self) -> impl Operand<'_, Item = &[Self::Element]>;
}

impl<T: Element> ReadTensor for TensorView<'_, T> {
    type Element = T;

    #[inline(always)]
    fn elements(&self) -> impl Operand<'_, Item = &T> {
        self
    }

    #[inline(always)]
    fn rows(&self) -> impl Operand<'_, Item = &[T]> {
        rows(self)
    }
}

/// A tensor that the function writes to.
pub trait WrittenTensor {
    /// Type of its elements.
    type Element: Element;
    /// Its elements as an operand.
    fn elements_mut(&mut self) -> impl Operand<'_, Item = &mut Self::Element>;
    /// Its rows as an operand.
    fn rows_mut(&mut self) -> impl Operand<'_, Item = &mut [Self::Element]>;
}

impl<T: Element> WrittenTensor for TensorViewMut<'_, T> {
    type Element = T;

    #[inline(always)]
    fn elements_mut(&mut self) -> impl Operand<'_, Item = &mut T> {
        self
    }

    #[inline(always)]
    fn rows_mut(&mut self) -> impl Operand<'_, Item = &mut [T]> {
        rows(self)
    }
}

/// Converts argument `index` to a view.
///
/// # Errors
/// As for [`arg`].
///
/// # Safety
/// Each argument is converted at most once.
#[inline(always)]
pub unsafe fn read_tensor<'a, T: Element>(
    info: &'static FunctionInfo,
    args: &'a [AnyView<'a>],
    index: usize,
) -> Result<impl ReadTensor<Element = T> + use<'a, T>> {
    // SAFETY: promised by the caller.
    unsafe { arg::<TensorView<'a, T>>(info, args, index) }
}

/// Converts argument `index` to a mutable view.
///
/// # Errors
/// As for [`arg`].
///
/// # Safety
/// Each argument is converted at most once.
#[inline(always)]
pub unsafe fn written_tensor<'a, T: Element>(
    info: &'static FunctionInfo,
    args: &'a [AnyView<'a>],
    index: usize,
) -> Result<impl WrittenTensor<Element = T> + use<'a, T>> {
    // SAFETY: promised by the caller.
    unsafe { arg::<TensorViewMut<'a, T>>(info, args, index) }
}
