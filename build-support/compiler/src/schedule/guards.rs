//! Conditions that keep loops inside: where a split does not divide, and where a region reaches beyond the tensor.

use std::collections::{HashMap, HashSet};

use super::pass_down::{RangeMap, overrunning};
use super::relations::{Relation, Tail};
use super::stage::Stage;
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::Result;
use crate::ir::{Expr, IterVar, Range};
use crate::te::operation::root_axes;

/// What guards are made for.
pub(crate) struct Guarded<'a> {
    /// The stage.
    pub(crate) stage: &'a Stage,
    /// Ranges of its axes.
    pub(crate) ranges: &'a RangeMap,
    /// Values of its axes, in the variables of the loops.
    pub(crate) values: &'a HashMap<IterVar, Expr>,
    /// What the variables of the loops can be.
    pub(crate) loops: &'a SetMap,
    /// Axes that do not matter.
    pub(crate) skip: &'a HashSet<IterVar>,
    /// Whether elements outside of the tensor matter: not if only memory is set that is there.
    pub(crate) check_tensor: bool,
}

/// The conditions that cannot be proven, in `likely` if loops are to be partitioned for them. The analyzer knows the loops around the stage and its own.
///
/// # Errors
/// An axis without a range.
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

/// Whether the rest of an axis that is split is asked for in each part.
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
