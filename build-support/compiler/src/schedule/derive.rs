//! Properties of a stage that `cache_write` and `rfactor` need before bound inference: the ranges
//! of all axes, derived from those of the operation; values of roots from loops and of loops from
//! roots; and the conditions that keep loops in bounds.

use std::collections::{HashMap, HashSet};

use super::guards::{Guarded, guards};
use super::pass_down::{RangeMap, pass_down_ranges, pass_up_values};
use super::relations::Relation;
use super::stage::Stage;
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::{Result, fail};
use crate::ir::{Expr, IterVar, Range};
use crate::te::operation::root_axes;

/// The ranges of all axes of a stage that computes its whole tensor.
pub(crate) fn own_ranges(stage: &Stage, analyzer: &Analyzer) -> Result<RangeMap> {
    let mut ranges = RangeMap::new();
    for axis in root_axes(stage.operation()) {
        if let Some(dom) = &axis.dom {
            ranges.insert(axis.clone(), dom.clone());
        }
    }
    let mut unbound = stage.clone();
    // Threads share extents with other stages, which are neither known nor needed here.
    unbound.attrs.clear();
    pass_down_ranges(&unbound, &mut ranges, analyzer)?;
    Ok(ranges)
}

/// Values of the roots from those of the leaves, and the conditions under which they are in bounds;
/// without conditions for the axes in `skip`.
pub(crate) fn roots_of_leaves(
    stage: &Stage,
    ranges: &RangeMap,
    leaves: &HashMap<IterVar, Expr>,
    skip: &HashSet<IterVar>,
    analyzer: &Analyzer,
) -> Result<(HashMap<IterVar, Expr>, Vec<Expr>)> {
    let mut sets = SetMap::new();
    for (leaf, value) in leaves {
        let (Some(var), Some(range)) = (crate::ir::Var::of(value), ranges.get(leaf)) else { continue };
        analyzer.bind(&var, range);
        sets.insert(var, IntSet::of_range(range));
    }
    let mut values = leaves.clone();
    pass_up_values(stage, ranges, &mut values, analyzer)?;
    for value in values.values_mut() {
        *value = analyzer.simplify(value);
    }
    let guarded = Guarded { stage, ranges, values: &values, loops: &sets, skip, check_tensor: false };
    let conditions = guards(&guarded, analyzer)?;
    Ok((values, conditions))
}

/// Values of the leaves from those of the roots.
pub(crate) fn leaves_of_roots(
    stage: &Stage,
    ranges: &RangeMap,
    roots: &HashMap<IterVar, Expr>,
) -> Result<HashMap<IterVar, Expr>> {
    let mut values = roots.clone();
    let range = |axis: &IterVar| -> Result<&Range> {
        match ranges.get(axis) {
            Some(range) => Ok(range),
            None => fail!(Internal, "no range for `{}`", axis.name()),
        }
    };
    for relation in &stage.relations {
        match relation {
            Relation::Split { parent, outer, inner, .. } => {
                let Some(value) = values.get(parent) else { continue };
                let value = value - &range(parent)?.min;
                let part = &range(inner)?.extent;
                values.insert(outer.clone(), value.floor_div(part));
                values.insert(inner.clone(), value.floor_mod(part));
            }
            Relation::Fuse { outer, inner, fused } => {
                let (Some(slow), Some(fast)) = (values.get(outer), values.get(inner)) else { continue };
                let inner = range(inner)?;
                let value = (slow - &range(outer)?.min) * &inner.extent + (fast - &inner.min);
                values.insert(fused.clone(), value);
            }
            Relation::Rebase { parent, rebased } => {
                let Some(value) = values.get(parent) else { continue };
                values.insert(rebased.clone(), value - &range(parent)?.min);
            }
            Relation::Singleton { axis } => {
                values.insert(axis.clone(), Expr::int(0));
            }
        }
    }
    Ok(values)
}
