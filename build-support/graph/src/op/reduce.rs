//! Sums, maxima and similar reductions over axes.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, F64, I64, IterVar, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, extents, tensor, zeros};
use super::{Call, Operator, Pattern, extremum};
use crate::error::{Result, require};

/// The way in which elements are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sum,
    Product,
    Max,
    Min,
}

/// An operator: the reduced values, and the function of the result. The closures also get the
/// number of elements.
macro_rules! reductions {
    ($($name:literal $kind:ident $before:expr, $after:expr;)*) => {
        &[$(Operator {
            name: $name,
            pattern: Pattern::Reduction,
            make: |call| {
                let before: fn(Expr) -> Expr = $before;
                let after: fn(Expr, f64) -> Expr = $after;
                reduce(call, Kind::$kind, before, after)
            },
        },)*
        Operator { name: "ReduceLogSumExp", pattern: Pattern::Reduction, make: log_sum_exp },
        Operator { name: "ArgMax", pattern: Pattern::Reduction, make: |call| arg(call, true) },
        Operator { name: "ArgMin", pattern: Pattern::Reduction, make: |call| arg(call, false) },
        Operator { name: "CumProd", pattern: Pattern::Reduction, make: |call| cumulative(call, 1.0, |a, b| a * b) },
        Operator { name: "CumSum", pattern: Pattern::Reduction, make: |call| cumulative(call, 0.0, |a, b| a + b) }]
    };
}

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = reductions! {
    "ReduceSum" Sum |x| x, |x, _| x;
    "ReduceMean" Sum |x| x, |x, count| { let by = te::constant(count, x.dtype()); x / by };
    "ReduceMax" Max |x| x, |x, _| x;
    "ReduceMin" Min |x| x, |x, _| x;
    "ReduceProd" Product |x| x, |x, _| x;
    "ReduceL1" Sum te::abs, |x, _| x;
    "ReduceL2" Sum |x| &x * &x, |x, _| te::sqrt(as_float(x));
    "ReduceLogSum" Sum |x| x, |x, _| te::log(as_float(x));
    "ReduceSumSquare" Sum |x| &x * &x, |x, _| x;
};

/// Converts a value to a float: functions of integers are computed in double precision, and their
/// results are truncated.
fn as_float(x: Expr) -> Expr {
    if x.dtype().is_float() { x } else { x.cast(F64) }
}

/// The reduced axes, and the shapes with these axes kept as 1 and removed.
pub(super) struct Axes {
    /// True for each reduced axis.
    pub(super) gone: Vec<bool>,
    /// The shape without the reduced axes.
    pub(super) kept: Vec<i64>,
    /// The shape with a 1 for each reduced axis.
    pub(super) ones: Vec<i64>,
}

impl Axes {
    /// Returns the axes with these indices.
    pub(super) fn new(x: &Operand, axes: &[i64]) -> Result<Self> {
        let mut gone = vec![false; x.rank()];
        for axis in axes {
            gone[x.axis(*axis)?] = true;
        }
        let kept = (0..x.rank()).filter(|axis| !gone[*axis]).map(|axis| x.shape[axis]).collect();
        let ones = (0..x.rank()).map(|axis| if gone[axis] { 1 } else { x.shape[axis] }).collect();
        Ok(Self { gone, kept, ones })
    }

    /// Returns reduction axes over the reduced ones.
    pub(super) fn loops(&self, x: &Operand) -> Vec<IterVar> {
        let axes = (0..x.rank()).filter(|axis| self.gone[*axis]);
        axes.map(|axis| reduce_axis(0, x.shape[axis], &format!("r{axis}"))).collect()
    }

    /// Returns a position in the input, from one in the result and the reduction axes.
    pub(super) fn join(&self, left: &[Expr], loops: &[IterVar]) -> Vec<Expr> {
        let (mut left, mut loops) = (left.iter().cloned(), loops.iter().map(IterVar::expr));
        let next = |gone: &bool| if *gone { loops.next() } else { left.next() };
        self.gone.iter().map(next).map(|index| index.unwrap_or_else(|| Expr::int(0))).collect()
    }

    /// Returns the position in the result, from one in the input.
    pub(super) fn left(&self, position: &[Expr]) -> Vec<Expr> {
        position.iter().zip(&self.gone).filter(|(_, gone)| !**gone).map(|(index, _)| index.clone()).collect()
    }
}

fn axes_of(call: &Call) -> Result<Option<Axes>> {
    let x = call.input(0)?;
    let axes = call.ints_or_attr(1, "axes")?.unwrap_or_default();
    if axes.is_empty() {
        if call.attrs.flag("noop_with_empty_axes", false)? {
            return Ok(None);
        }
        let all: Vec<i64> = (0..i64::try_from(x.rank()).unwrap_or(0)).collect();
        return Axes::new(x, &all).map(Some);
    }
    Axes::new(x, &axes).map(Some)
}

/// Returns the result in the shape with ones, if that is requested.
fn shaped(call: &Call, axes: &Axes, reduced: &Tensor, after: impl FnOnce(Expr) -> Expr) -> Result<Tensor> {
    let keeps = call.attrs.flag("keepdims", true)?;
    let shape = if keeps { &axes.ones } else { &axes.kept };
    Ok(tensor(shape, |position| {
        let at = if keeps { axes.left(position) } else { position.to_vec() };
        after(reduced.at(&at))
    }))
}

fn reduce(call: &Call, kind: Kind, before: fn(Expr) -> Expr, after: fn(Expr, f64) -> Expr) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let Some(axes) = axes_of(call)? else {
        return Ok(vec![tensor(&x.shape, |position| after(before(x.at(position)), 1.0).cast(x.dtype))]);
    };
    let count: i64 = (0..x.rank()).filter(|axis| axes.gone[*axis]).map(|axis| x.shape[axis]).product();
    let count = count as f64;
    // Sums of narrow floats would lose precision.
    let wide = if x.dtype.is_float() && x.dtype.bits() < 32 { F32 } else { x.dtype };
    let loops = axes.loops(x);
    let reduced = if loops.is_empty() {
        tensor(&axes.kept, |position| before(x.at(position).cast(wide)))
    } else if x.shape.contains(&0) {
        let identity = match kind {
            Kind::Sum => te::constant(0.0, wide),
            Kind::Product => te::constant(1.0, wide),
            Kind::Max => {
                if wide.is_float() {
                    te::constant(f64::NEG_INFINITY, wide)
                } else {
                    te::min_value(wide)
                }
            }
            Kind::Min => {
                if wide.is_float() {
                    te::constant(f64::INFINITY, wide)
                } else {
                    te::max_value(wide)
                }
            }
        };
        tensor(&axes.kept, |_| identity)
    } else {
        let is_bool = x.dtype.is_bool();
        tensor(&axes.kept, |left| {
            let value = before(x.at(&axes.join(left, &loops)).cast(wide));
            match kind {
                Kind::Sum => te::sum(value, &loops[..]),
                Kind::Product => te::product(value, &loops[..]),
                Kind::Max if is_bool => te::reduce_any(value, &loops[..]),
                Kind::Min if is_bool => te::reduce_all(value, &loops[..]),
                Kind::Max => te::reduce_max(value, &loops[..]),
                Kind::Min => te::reduce_min(value, &loops[..]),
            }
        })
    };
    Ok(vec![shaped(call, &axes, &reduced, |value| after(value, count).cast(x.dtype))?])
}

/// The largest element is factored out first, to prevent overflow.
fn log_sum_exp(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let Some(axes) = axes_of(call)? else { return Ok(vec![tensor(&x.shape, |position| x.at(position))]) };
    if x.shape.contains(&0) {
        let nothing = tensor(&axes.kept, |_| te::constant(f64::NEG_INFINITY, F64).cast(x.dtype));
        return Ok(vec![shaped(call, &axes, &nothing, |value| value)?]);
    }
    let (first, second) = (axes.loops(x), axes.loops(x));
    if first.is_empty() {
        return Ok(vec![tensor(&x.shape, |position| x.at(position))]);
    }
    let element = |at: &[Expr]| as_float(x.at(at));
    let largest = tensor(&axes.kept, |left| extremum::largest_of_powers(element(&axes.join(left, &first)), &first));
    // A row of only infinities would give NaN.
    let base = tensor(&axes.kept, |left| {
        let value = largest.at(left);
        te::select(te::isfinite(&value), &value, te::constant(0.0, value.dtype()))
    });
    let total =
        tensor(&axes.kept, |left| te::sum(te::exp(element(&axes.join(left, &second)) - base.at(left)), &second[..]));
    let keeps = call.attrs.flag("keepdims", true)?;
    let shape = if keeps { &axes.ones } else { &axes.kept };
    Ok(vec![tensor(shape, |position| {
        let at = if keeps { axes.left(position) } else { position.to_vec() };
        (te::log(total.at(&at)) + base.at(&at)).cast(x.dtype)
    })])
}

fn arg(call: &Call, largest: bool) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = call.attrs.int("axis", 0)?;
    let axes = Axes::new(x, &[axis])?;
    let extent = x.shape[x.axis(axis)?];
    require!(extent > 0, "axis {axis} of {:?} has no elements", x.shape);
    if x.shape.contains(&0) {
        let shape = if call.attrs.flag("keepdims", true)? { &axes.ones } else { &axes.kept };
        return Ok(vec![zeros(shape, I64)]);
    }
    let takes_last = call.attrs.flag("select_last_index", false)?;
    let loops = axes.loops(x);
    let [k] = &loops[..] else { return Ok(Vec::new()) };
    let mut pair = te::compute_dyn(extents(&axes.kept), |left| {
        let left: Vec<Expr> = left.iter().map(IterVar::expr).collect();
        // The first one of equal values wins. Counted from the end, that is the last one.
        let place = if takes_last { Expr::int(extent - 1) - k.expr() } else { k.expr() };
        let mut at = axes.join(&left, &loops);
        if let Some(gone) = axes.gone.iter().position(|gone| *gone) {
            at[gone] = place;
        }
        let value = x.at(&at);
        let pair = if largest { te::argmax(k.expr(), value, k) } else { te::argmin(k.expr(), value, k) };
        pair.to_vec()
    });
    let found = pair.swap_remove(0);
    Ok(vec![shaped(call, &axes, &found, |index| {
        let index = if takes_last { Expr::int(extent - 1) - index } else { index };
        index.cast(I64)
    })?])
}

/// Computes sums or products, in steps of 1, 2, 4, ..: after each step, an element covers twice as
/// many. The algorithm is from W. D. Hillis and G. L. Steele, Data parallel algorithms, 1986.
fn cumulative(call: &Call, none: f64, join: fn(Expr, Expr) -> Expr) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = match call.ints(1)?[..] {
        [axis] => x.axis(axis)?,
        ref axes => crate::error::fail!("expected one axis, got {axes:?}"),
    };
    let (exclusive, reverse) = (call.attrs.flag("exclusive", false)?, call.attrs.flag("reverse", false)?);
    if x.shape.contains(&0) {
        return Ok(vec![tensor(&x.shape, |position| x.at(position))]);
    }
    let extent = x.shape[axis];
    // The combined element at this distance before, or the neutral element.
    let before = |position: &[Expr], distance: i64, of: &dyn Fn(&[Expr]) -> Expr| {
        let mut at = position.to_vec();
        at[axis] = if reverse { &at[axis] + distance } else { &at[axis] - distance };
        let is_there = if reverse { at[axis].less(extent) } else { at[axis].greater_equal(0) };
        Expr::if_then_else(is_there, of(&at), te::constant(none, x.dtype))
    };
    let mut sums =
        tensor(&x.shape, |position| if exclusive { before(position, 1, &|at| x.at(at)) } else { x.at(position) });
    let mut distance = 1;
    while distance < extent {
        let last = sums;
        sums = tensor(&x.shape, |position| join(last.at(position), before(position, distance, &|at| last.at(at))));
        distance *= 2;
    }
    Ok(vec![sums])
}
