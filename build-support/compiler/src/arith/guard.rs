//! Comparisons solved for a loop variable: the iterations in which guards hold.

use super::analyzer::{Analyzer, State};
use super::division::is_safe_part;
use super::facts::is_index;
use super::int_set::{IntSet, SetMap};
use super::render::render;
use super::sum::Sum;
use crate::ir::visit::uses_var;
use crate::ir::{CompareOp, Expr, ExprNode, Var, VarMap, substitute};

/// A set of iterations of a loop.
pub(crate) enum Iterations {
    /// All iterations.
    All,
    /// The iterations below a value.
    Below(Expr),
    /// The iterations from a value on.
    From(Expr),
}

/// Returns the iterations in which a comparison holds for all values of other variables in their
/// sets (if `always`), or the iterations outside of which it holds for no values (otherwise).
/// Returns `None` if the comparison cannot be solved.
///
/// Both sides are treated as whole numbers. Data is not moved to the other side, because the result
/// may wrap there. Assumption: the sums of indices that form the bounds do not overflow, as those
/// of the comparison do not.
pub(crate) fn solve(
    var: &Var,
    comparison: &Expr,
    sets: &SetMap,
    analyzer: &Analyzer,
    always: bool,
) -> Option<Iterations> {
    let ExprNode::Compare { op, a, b } = &**comparison else { return None };
    if !is_index(a) {
        return None;
    }
    // It holds where this is negative.
    let (left, right) = analyzer.with(|state| (state.sum_of(a), state.sum_of(b)));
    let mut indices = match op {
        CompareOp::Lt | CompareOp::Le => left.minus(&right),
        CompareOp::Gt | CompareOp::Ge => right.minus(&left),
        CompareOp::Eq | CompareOp::Ne => return None,
    };
    if matches!(op, CompareOp::Le | CompareOp::Ge) {
        indices.add_base(-1);
    }
    // Sets do not model sums of data that are not machine integers.
    let mut data = Sum::constant(indices.dtype, 0);
    (data.terms, indices.terms) = indices.terms.into_iter().partition(|term| term.data);
    if !indices.fits() || !data.fits() || data.terms.iter().any(|term| uses_var(&term.index, |used| used == var)) {
        return None;
    }
    let range = IntSet::evaluate(&render(&indices, None), sets, analyzer);
    let extreme = analyzer.simplify(if always { range.max()? } else { range.min()? });
    let at = |value: Expr| substitute(&extreme, &VarMap::from_iter([(var.clone(), value)]));
    let step = analyzer.simplify(&(at(var + 1) - &extreme)).as_int()?;
    if step == 0 {
        let mut past = data;
        let proved = analyzer.with(|state| {
            past.add_scaled(&state.sum_of(&extreme), 1);
            past.add_base(1);
            always && state.proves_not_positive(&past)
        });
        return proved.then_some(Iterations::All);
    }
    let first = analyzer.simplify(&at(Expr::constant(var.dtype(), 0)));
    analyzer.with(|state| {
        let mut rest = state.sum_of(&first);
        rest.add_scaled(&data, 1);
        state.bound(rest, step, &[&left, &right])
    })
}

impl State {
    /// The iterations in which `step * i + rest < 0`, made of the terms of `sides`.
    fn bound(&self, rest: Sum, step: i64, sides: &[&Sum]) -> Option<Iterations> {
        let size = step.checked_abs()?;
        let divisor = Expr::constant(rest.dtype, size);
        // i < ceil(-rest / step), or i >= floor(rest / -step) + 1; a step of 1 needs no rounding.
        let mut bound = if step > 0 { rest.scaled(-1) } else { rest };
        bound.add_base(if step > 0 { size - 1 } else { i64::from(size == 1) });
        if !self.is_computable(&bound) || !is_safe_part(&bound, sides) {
            return None;
        }
        let quotient = if size == 1 { render(&bound, None) } else { render(&bound, None).floor_div(divisor) };
        Some(match step {
            0.. => Iterations::Below(quotient),
            -1 => Iterations::From(quotient),
            _ => Iterations::From(quotient + 1),
        })
    }
}
