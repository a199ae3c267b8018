//! The analyzer for other languages: functions of expressions, of the ranges of variables
//! (iteration variables with a domain, outer ones first), and of conditions that hold.
//!
//! Assumptions: all variables are indices, on which arithmetic does not overflow. Loads and the
//! results of calls are data, and wrap.

use std::collections::HashMap;

use kernpack::{Array, packed_func};

use super::{Analyzer, IntSet};
use crate::ir::{Expr, IterVar, Var};

fn analyzer(axes: &Array<IterVar>, conditions: &Array<Expr>) -> Analyzer {
    let analyzer = Analyzer::new();
    for axis in axes.iter() {
        if let Some(dom) = &axis.dom {
            analyzer.bind(&axis.var, dom);
        }
    }
    conditions.iter().for_each(|condition| analyzer.enter(&condition));
    analyzer
}

/// Returns the expression in canonical, simpler form.
#[packed_func(name = "kernpack.arith.simplify")]
fn simplify(expr: Expr, axes: Array<IterVar>, conditions: Array<Expr>) -> Expr {
    analyzer(&axes, &conditions).simplify(&expr)
}

/// Returns true if a condition provably holds.
#[packed_func(name = "kernpack.arith.can_prove")]
fn can_prove(condition: Expr, axes: Array<IterVar>, conditions: Array<Expr>) -> bool {
    analyzer(&axes, &conditions).can_prove(&condition)
}

/// Returns the smallest and the largest value; the ends of i64 represent an unbounded end.
#[packed_func(name = "kernpack.arith.const_interval")]
fn const_interval(expr: Expr, axes: Array<IterVar>, conditions: Array<Expr>) -> Array<i64> {
    let interval = analyzer(&axes, &conditions).const_interval(&expr);
    [interval.min, interval.max].into_iter().collect()
}

/// Returns `[coeff, base]`: the values are `coeff * k + base`.
#[packed_func(name = "kernpack.arith.modular_set")]
fn modular_set(expr: Expr, axes: Array<IterVar>, conditions: Array<Expr>) -> Array<i64> {
    let set = analyzer(&axes, &conditions).modular_set(&expr);
    [set.coeff, set.base].into_iter().collect()
}

/// Returns the coefficients of the variables, then the rest without them; empty if the expression
/// is not a linear function of them.
#[packed_func(name = "kernpack.arith.detect_linear")]
fn detect_linear(expr: Expr, vars: Array<Var>) -> Array<Expr> {
    let vars: Vec<Var> = vars.iter().collect();
    match super::detect_linear(&expr, &vars, &Analyzer::new()) {
        Some(form) => form.coefficients.into_iter().chain([form.base]).collect(),
        None => Array::default(),
    }
}

/// Returns the first and last value of a variable for which a condition holds for all values of
/// other axes; a missing end means no limit. Empty if no such interval is found.
#[packed_func(name = "kernpack.arith.deduce_bound")]
fn deduce_bound(var: Var, condition: Expr, relaxed: Array<IterVar>) -> Array<Option<Expr>> {
    let sets: HashMap<Var, IntSet> =
        relaxed.iter().filter_map(|axis| Some((axis.var.clone(), IntSet::of_range(axis.dom.as_ref()?)))).collect();
    match super::deduce_bound(&var, &condition, &sets, &Analyzer::new()) {
        Some(IntSet::Interval { min, max }) => [min, max].into_iter().collect(),
        Some(IntSet::Nothing) => [Some(Expr::int(0)), Some(Expr::int(-1))].into_iter().collect(),
        None => Array::default(),
    }
}
