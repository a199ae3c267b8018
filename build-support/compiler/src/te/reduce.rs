//! Reductions: sums, extrema, positions of extrema, and any other commutative and associative
//! function.

use core::panic::Location;
use std::collections::HashSet;

use kernpack::{Array, DataType};

use super::exprs::Axes;
use super::placeholder::counted;
use crate::error::{CompileError, ErrorKind, Result, place, report};
use crate::ir::visit::{Visit, uses_var, walk_expr};
use crate::ir::{BOOLEAN, DataTypeExt, Expr, ExprNode, IterKind, IterVar, Reducer, ReducerNode, Var};

/// The sum over axes; 0 if it is empty.
#[track_caller]
pub fn sum(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "sum", |dtype| Expr::constant(dtype, 0), |a, b| a + b)
}

/// The product over axes; 1 if it is empty.
#[track_caller]
pub fn product(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "product", |dtype| Expr::constant(dtype, 1), |a, b| a * b)
}

/// The smallest value over axes, NaN if one of them is NaN; the largest value of the type
/// (infinity) if it is empty.
#[track_caller]
pub fn reduce_min(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "reduce_min", max_value, |a, b| match a.dtype().is_float() {
        true => better_or_nan(a, b, |b, a| b.less(a)),
        false => a.min(b),
    })
}

/// The largest value over axes, NaN if one of them is NaN; the smallest value of the type (minus
/// infinity) if it is empty.
#[track_caller]
pub fn reduce_max(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "reduce_max", min_value, |a, b| match a.dtype().is_float() {
        true => better_or_nan(a, b, |b, a| b.greater(a)),
        false => a.max(b),
    })
}

/// Returns the partial result `a`, or the element `b` if that is better, or NaN if the element is
/// NaN. A comparison with NaN is false, so that NaN in `a` is kept. Only the test of the element is
/// additional to a CPU's min or max instruction, and it does not depend on the partial result.
///
/// Measured in microseconds for a pool of 3 x 3 with AVX-512 and AVX2: 46 and 88; with the element
/// itself in place of NaN: 55 and 106; with the larger one of both orders, joined by bits:
/// 55 and 103.
fn better_or_nan(a: &Expr, b: &Expr, is_better: impl Fn(&Expr, &Expr) -> Expr) -> Expr {
    let better = Expr::select(is_better(b, a), b, a);
    Expr::select(b.differs(b), Expr::float(a.dtype(), f64::NAN), better)
}

/// True if a condition holds for all elements; true if there are none.
#[track_caller]
pub fn reduce_all(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "reduce_all", |_| Expr::bool(true), |a, b| a.and(b))
}

/// True if a condition holds for any element; false if there are none.
#[track_caller]
pub fn reduce_any(source: impl Into<Expr>, axes: impl Axes) -> Expr {
    one(source.into(), axes.into_axes(), "reduce_any", |_| Expr::bool(false), |a, b| a.or(b))
}

/// The index of the largest value, and the value: `[index, value]`. Of equal values, the one with
/// the lowest index; NaN is larger than all numbers; -1 and the smallest value of the type if it is
/// empty.
#[track_caller]
pub fn argmax(index: impl Into<Expr>, value: impl Into<Expr>, axes: impl Axes) -> [Expr; 2] {
    extremum(index.into(), value.into(), axes.into_axes(), "argmax", min_value, |a, b| a.greater(b))
}

/// The index of the smallest value, and the value: `[index, value]`. Of equal values, the one with
/// the lowest index; NaN is smaller than all numbers; -1 and the largest value of the type if it is
/// empty.
#[track_caller]
pub fn argmin(index: impl Into<Expr>, value: impl Into<Expr>, axes: impl Axes) -> [Expr; 2] {
    extremum(index.into(), value.into(), axes.into_axes(), "argmin", max_value, |a, b| a.less(b))
}

/// The smallest value of a type: minus infinity for floats.
pub fn min_value(dtype: DataType) -> Expr {
    if dtype.is_float() {
        return Expr::float(dtype, f64::NEG_INFINITY);
    }
    let bits = u32::from(dtype.bits());
    let value = if dtype.is_int() { i64::MIN >> (64 - bits.clamp(1, 64)) } else { 0 };
    Expr::constant(dtype, value)
}

/// The largest value of a type: infinity for floats.
pub fn max_value(dtype: DataType) -> Expr {
    if dtype.is_float() {
        return Expr::float(dtype, f64::INFINITY);
    }
    let bits = u32::from(dtype.bits()).clamp(1, 64);
    let value = match (dtype.is_bool(), dtype.is_int()) {
        (true, _) => 1,
        (_, true) => i64::MAX >> (64 - bits),
        _ => (u64::MAX >> (64 - bits)) as i64,
    };
    Expr::constant(dtype, value)
}

#[track_caller]
fn one(
    source: Expr,
    axes: Vec<IterVar>,
    name: &str,
    identity: impl Fn(DataType) -> Expr,
    combine: impl Fn(&Expr, &Expr) -> Expr,
) -> Expr {
    let here = Location::caller();
    let dtype = source.dtype();
    let (a, b) = (Var::new("x", dtype), Var::new("y", dtype));
    let reducer = Reducer::from_node(ReducerNode {
        results: [combine(&a, &b)].into_iter().collect(),
        identity: [identity(dtype)].into_iter().collect(),
        lhs: [a].into_iter().collect(),
        rhs: [b].into_iter().collect(),
    });
    reduction(name, &reducer, vec![source], axes, Expr::bool(true), Vec::new(), here).swap_remove(0)
}

#[track_caller]
fn extremum(
    index: Expr,
    value: Expr,
    axes: Vec<IterVar>,
    name: &str,
    worst: impl Fn(DataType) -> Expr,
    better: impl Fn(&Expr, &Expr) -> Expr,
) -> [Expr; 2] {
    let here = Location::caller();
    let (at, of) = (index.dtype(), value.dtype());
    let (ia, ib) = (Var::new("ix", at), Var::new("iy", at));
    let (va, vb) = (Var::new("x", of), Var::new("y", of));
    // For equal values in either order of the operands, the lowest index wins, and the identity
    // (-1) never does, so that any order of the reduction has one result.
    let lower = ib.greater_equal(0).and(ib.less(&ia)).or(ia.less(0));
    let mut takes_right = better(&vb, &va).or(vb.equals(&va).and(&lower));
    if of.is_float() {
        // NaN wins over all numbers, and the first NaN is kept.
        takes_right = takes_right.or(vb.differs(&vb).and(va.equals(&va).or(lower)));
    }
    let reducer = Reducer::from_node(ReducerNode {
        results: [Expr::select(&takes_right, &ib, &ia), Expr::select(&takes_right, &vb, &va)].into_iter().collect(),
        identity: [Expr::constant(at, -1), worst(of)].into_iter().collect(),
        lhs: [ia, va].into_iter().collect(),
        rhs: [ib, vb].into_iter().collect(),
    });
    let both = reduction(name, &reducer, vec![index, value], axes, Expr::bool(true), Vec::new(), here);
    both.try_into().unwrap_or_else(|_| unreachable!("two sources give two results"))
}

/// Builds the results of a reduction; type errors are reported.
pub(crate) fn reduction(
    name: &str,
    reducer: &Reducer,
    sources: Vec<Expr>,
    axes: Vec<IterVar>,
    condition: Expr,
    init: Vec<Expr>,
    here: &Location<'_>,
) -> Vec<Expr> {
    let count = sources.len().max(1);
    if let Err(error) = check(name, reducer, &sources, &axes, &condition, &init) {
        report(error.at(place(here)));
        let mut dummies: Vec<Expr> = reducer.identity.iter().zip(0..count).map(|(identity, _)| identity).collect();
        dummies.resize(count, Expr::float(crate::ir::F32, 0.0));
        return dummies;
    }
    let (sources, axes, init): (Array<Expr>, Array<IterVar>, Array<Expr>) = (sources.into(), axes.into(), init.into());
    let results = (0..count).map(|index| {
        Expr::from_node(ExprNode::Reduce {
            reducer: reducer.clone(),
            sources: sources.clone(),
            axes: axes.clone(),
            condition: condition.clone(),
            init: init.clone(),
            value_index: index as i64,
        })
    });
    results.collect()
}

fn check(
    name: &str,
    reducer: &Reducer,
    sources: &[Expr],
    axes: &[IterVar],
    condition: &Expr,
    init: &[Expr],
) -> Result<()> {
    use crate::error::{fail, require};
    require!(!axes.is_empty(), Type, "{name}: no axis to reduce over");
    for (position, axis) in axes.iter().enumerate() {
        if axis.kind != IterKind::CommReduce {
            let error = format!("{name}: `{}` is not an axis of a reduction", axis.name());
            return Err(CompileError::new(ErrorKind::Type, error)
                .note(format!("make one with `reduce_axis(0, extent, \"{}\")`", axis.name())));
        }
        require!(!axes[..position].contains(axis), Type, "{name}: axis `{}` is given twice", axis.name());
    }
    let width = reducer.lhs.len();
    require!(sources.len() == width, Type, "{name} reduces {}, got {}", counted(width, "value"), sources.len());
    require!(
        init.is_empty() || init.len() == width,
        Type,
        "{name}: {} for {}",
        counted(init.len(), "initial value"),
        counted(width, "value")
    );
    require!(condition.dtype() == BOOLEAN, Type, "{name}: the condition is of type {}", condition.dtype().short_name());
    for (index, source) in sources.iter().enumerate() {
        let expected = reducer.lhs.get(index).map(|var| var.dtype());
        if expected != Some(source.dtype()) {
            let expected = expected.map_or_else(String::new, |dtype| dtype.short_name());
            fail!(Type, "{name}: value {index} is of type {}, expected {expected}", source.dtype().short_name());
        }
        if let Some(first) = init.get(index)
            && Some(first.dtype()) != expected
        {
            fail!(Type, "{name}: initial value {index} is of type {}", first.dtype().short_name());
        }
    }
    for (value, axis) in init.iter().flat_map(|value| axes.iter().map(move |axis| (value, axis))) {
        let depends = uses_var(value, |var| *var == axis.var);
        require!(!depends, Type, "{name}: the initial value depends on the axis `{}`", axis.name());
    }
    for part in sources.iter().chain([condition]).chain(init) {
        if contains_reduction(part) {
            return Err(nested());
        }
    }
    let arithmetic = sources.iter().all(|source| source.dtype().is_scalar());
    require!(arithmetic, Type, "{name}: a value with lanes");
    let is_logic = matches!(name, "reduce_all" | "reduce_any");
    for source in sources {
        require!(
            !is_logic || source.dtype().is_bool(),
            Type,
            "{name} takes truth values, got {}",
            source.dtype().short_name()
        );
        let number = source.dtype().is_integer() || source.dtype().is_float();
        require!(
            !matches!(name, "sum" | "product") || number,
            Type,
            "{name} takes numbers, got {}",
            source.dtype().short_name()
        );
    }
    Ok(())
}

fn nested() -> CompileError {
    CompileError::new(ErrorKind::Type, "a reduction inside an expression").note(
        "a reduction is the whole expression of a tensor: create another tensor for further composition, and read that",
    )
}

#[derive(Default)]
struct FindReduction {
    found: bool,
    /// Expressions share parts: each is visited once.
    visited: HashSet<usize>,
}

impl Visit for FindReduction {
    fn visit_expr(&mut self, expr: &Expr) {
        if matches!(**expr, ExprNode::Reduce { .. }) {
            self.found = true;
        }
        if !self.found && self.visited.insert(expr.address()) {
            walk_expr(self, expr);
        }
    }
}

fn contains_reduction(expr: &Expr) -> bool {
    let mut find = FindReduction::default();
    find.visit_expr(expr);
    find.found
}

/// Checks that a reduction is only at the top of an expression.
pub(crate) fn check_reduction_places(body: &Expr) -> Result<()> {
    // The parts of a reduction were checked when it was built.
    if !matches!(**body, ExprNode::Reduce { .. }) && contains_reduction(body) {
        return Err(nested());
    }
    Ok(())
}
