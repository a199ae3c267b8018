//! What `#[packed_func(parallel)]` expands to calls these.

use super::domain::Order;
use super::names::Names;
use super::operand::{self, Operand, Operands};
use super::outcome::{Outcome, Yield};
use super::zip::{Zip, zip};
use crate::Result;
use crate::function::{FunctionInfo, arg};
use crate::tensor::{Element, Tensor, TensorView, TensorViewMut};
use crate::value::AnyView;

/// Calls the user's function for the items of the tensor arguments, whose parameters have these indices. A grain of 0 is none.
///
/// # Errors
/// Messages begin with the function's signature and name arguments.
pub fn parallel_for_each<'a, O: Operands<'a>, R: Outcome>(
    info: &'static FunctionInfo,
    parameters: &[usize],
    grain: usize,
    operands: O,
    body: impl Fn(O::Items) -> R + Sync,
) -> Result<()> {
    paced(operands, grain).run(Order::Any, Names::Parameters(info, parameters), |_, items| body(items))
}

/// The same for a function that returns an element: they become a new tensor.
///
/// # Errors
/// As for [`parallel_for_each`].
pub fn parallel_map<'a, O: Operands<'a>, R: Yield>(
    info: &'static FunctionInfo,
    parameters: &[usize],
    grain: usize,
    operands: O,
    body: impl Fn(O::Items) -> R + Sync,
) -> Result<Tensor> {
    paced(operands, grain).map_named(Names::Parameters(info, parameters), body)
}

fn paced<'a, O: Operands<'a>>(operands: O, grain: usize) -> Zip<'a, O> {
    let loops = zip(operands);
    if grain == 0 { loops } else { loops.grain(grain) }
}

/// What each call of a parallel function can be given by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can not be given to each call of a parallel function",
    label = "not `Copy`, or not `Sync`",
    note = "take it by reference, as in `&str`, `&Vec<f32>`, `&TensorView<f32>`; of a tensor that the function goes over, `&f32` is an element and `&[f32]` a row"
)]
pub trait ForEachCall: Copy + Sync {}

impl<T: Copy + Sync> ForEachCall for T {}

/// The value itself.
#[inline(always)]
pub fn for_each_call<T: ForEachCall>(value: T) -> T {
    value
}

// The functions below have the one bound that a user's type may not fulfil, so that the compiler says that and nothing else.

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
) -> Result<TensorView<'a, T>> {
    // SAFETY: promised by the caller.
    unsafe { arg(info, args, index) }
}

/// Converts argument `index` to a view that can be written to.
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
) -> Result<TensorViewMut<'a, T>> {
    // SAFETY: promised by the caller.
    unsafe { arg(info, args, index) }
}

/// Elements to be read.
#[inline(always)]
pub fn elements<'a, T: Element>(view: &'a TensorView<'_, T>) -> impl Operand<'a, Item = &'a T> {
    view
}

/// Elements to be written to.
#[inline(always)]
pub fn elements_mut<'a, T: Element>(view: &'a mut TensorViewMut<'_, T>) -> impl Operand<'a, Item = &'a mut T> {
    view
}

/// Rows to be read.
#[inline(always)]
pub fn rows<'a, T: Element>(view: &'a TensorView<'_, T>) -> impl Operand<'a, Item = &'a [T]> {
    operand::rows(view)
}

/// Rows to be written to.
#[inline(always)]
pub fn rows_mut<'a, T: Element>(view: &'a mut TensorViewMut<'_, T>) -> impl Operand<'a, Item = &'a mut [T]> {
    operand::rows(view)
}
