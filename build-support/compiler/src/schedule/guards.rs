//! Conditions that keep loops in bounds: where a split factor does not divide the extent, and where
//! a region extends beyond the tensor.

use std::collections::{HashMap, HashSet};

use super::pass_down::{RangeMap, overrunning};
use super::relations::{Relation, Tail};
use super::stage::Stage;
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::Result;
use crate::ir::{Expr, IterVar, Range};
use crate::te::operation::root_axes;

/// The input of guard generation.
pub(crate) struct Guarded<'a> {
    /// The stage.
    pub(crate) stage: &'a Stage,
    /// The ranges of its axes.
    pub(crate) ranges: &'a RangeMap,
    /// The values of its axes, as expressions of the loop variables.
    pub(crate) values: &'a HashMap<IterVar, Expr>,
    /// The sets of values of the loop variables.
    pub(crate) loops: &'a SetMap,
    /// Axes that are not guarded.
    pub(crate) skip: &'a HashSet<IterVar>,
    /// True if elements outside of the tensor need guards; false if only existing memory is
    /// initialized.
    pub(crate) check_tensor: bool,
}

/// Returns the conditions that cannot be proven, in `likely` if loops are to be partitioned for
/// them. The analyzer has facts about the loops around the stage and about its own loops.
///
/// # Errors
/// Returns an error for an axis without a range.
pub(crate) fn guards(guarded: &Guarded<'_>, analyzer: &Analyzer) -> Result<Vec<Expr>> {
    let Guarded { stage, ranges, values, loops, skip, check_tensor } = *guarded;
    let overrunning = overrunning(stage, ranges, analyzer)?;
    let mut conditions = Vec::new();
    let mut require = |condition: Expr, is_likely: bool| {
        if !condition.is_true() {
            conditions.push(if is_likely { condition.likely() } else { condition });
        }
    };
    for axis in stage.all_axes.iter().filter(|axis| overrunning.contains(*axis) && !skip.contains(*axis)) {
        let (Some(value), Some(range)) = (values.get(axis), ranges.get(axis)) else { continue };
        require(below(value, range, loops, analyzer), !is_predicated(stage, axis));
    }
    if !check_tensor {
        return Ok(conditions);
    }
    for axis in root_axes(stage.operation()).iter().filter(|axis| !skip.contains(*axis)) {
        let (Some(own), Some(range), Some(value)) = (&axis.dom, ranges.get(axis), values.get(axis)) else { continue };
        if own.same_as(range) {
            continue;
        }
        require(not_before(value, own, loops, analyzer), true);
        require(below(value, own, loops, analyzer), true);
    }
    Ok(conditions)
}

/// Returns true if the tail of an axis is predicated in each part of a split.
fn is_predicated(stage: &Stage, axis: &IterVar) -> bool {
    stage
        .relations
        .iter()
        .any(|relation| matches!(relation, Relation::Split { parent, tail: Tail::Predicate, .. } if parent == axis))
}

/// `value - min < extent`, or true if that is proven.
fn below(value: &Expr, range: &Range, loops: &SetMap, analyzer: &Analyzer) -> Expr {
    let value = analyzer.simplify(&(value - &range.min));
    let condition = value.less(&range.extent);
    if analyzer.can_prove(&condition) {
        return Expr::bool(true);
    }
    match IntSet::evaluate(&value, loops, analyzer) {
        IntSet::Nothing => Expr::bool(true),
        IntSet::Interval { max: Some(max), .. } if analyzer.can_prove(&max.less(&range.extent)) => Expr::bool(true),
        IntSet::Interval { .. } => condition,
    }
}

/// `value - min >= 0`, or true if that is proven.
fn not_before(value: &Expr, range: &Range, loops: &SetMap, analyzer: &Analyzer) -> Expr {
    let value = analyzer.simplify(&(value - &range.min));
    let condition = value.greater_equal(0);
    if analyzer.can_prove(&condition) {
        return Expr::bool(true);
    }
    match IntSet::evaluate(&value, loops, analyzer) {
        IntSet::Nothing => Expr::bool(true),
        IntSet::Interval { min: Some(min), .. } if analyzer.can_prove(&min.greater_equal(0)) => Expr::bool(true),
        IntSet::Interval { .. } => condition,
    }
}
