//! Propagation along the relations of a stage's axes: ranges down from the roots, values and sets
//! up from the leaves.

use std::collections::{HashMap, HashSet};

use super::relations::{Relation, Tail};
use super::stage::Stage;
use crate::arith::{Analyzer, IntSet};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::{Expr, IterKind, IterVar, Range};

/// Ranges by axis.
pub type RangeMap = HashMap<IterVar, Range>;

/// The loops of a stage: the leaves, except those inside an extern operation, which is opaque to
/// the compiler.
pub fn loops(stage: &Stage) -> impl DoubleEndedIterator<Item = &IterVar> {
    stage.leaves.iter().filter(|leaf| leaf.kind != IterKind::Opaque)
}

/// The thread that runs an axis: the one that it is bound to, or the axis itself.
pub fn thread_of<'a>(stage: &'a Stage, axis: &'a IterVar) -> Option<&'a IterVar> {
    stage.thread_of(axis).or_else(|| (axis.kind == IterKind::ThreadIndex).then_some(axis))
}

fn range_of<'a>(ranges: &'a RangeMap, axis: &IterVar, stage: &Stage) -> Result<&'a Range> {
    ranges.get(axis).ok_or_else(|| {
        CompileError::new(
            ErrorKind::Bound,
            format!("no range is known for axis `{}` of stage `{}`", axis.var.name(), stage.name()),
        )
        .at(&axis.span)
    })
}

/// Sets a range. A range that is already set has to be provably equal.
///
/// # Errors
/// Returns an error if the ranges differ: two uses of a thread with different extents.
pub fn set_range(
    ranges: &mut RangeMap,
    axis: &IterVar,
    range: Range,
    stage: &Stage,
    analyzer: &Analyzer,
) -> Result<()> {
    let Some(known) = ranges.get(axis) else {
        ranges.insert(axis.clone(), range);
        return Ok(());
    };
    if known.same_as(&range)
        || analyzer.can_prove(&known.min.equals(&range.min)) && analyzer.can_prove(&known.extent.equals(&range.extent))
    {
        return Ok(());
    }
    let mut error = CompileError::new(
        ErrorKind::Bound,
        format!(
            "stage `{}`: domain of `{}` already inferred, cannot prove their extents are the same: {} and {}",
            stage.name(),
            axis.var.name(),
            crate::text::print(&known.extent),
            crate::text::print(&range.extent),
        ),
    )
    .at(&axis.span);
    if axis.kind == IterKind::ThreadIndex {
        error = error.note(
            "all stages of a kernel that bind a thread use as many of them: split by the thread's extent before bind",
        );
    }
    Err(error)
}

/// Computes the ranges of the axes that relations created from those of the roots. Bound threads
/// get the range of their axis.
///
/// # Errors
/// Returns an error for a thread with two extents.
pub fn pass_down_ranges(stage: &Stage, ranges: &mut RangeMap, analyzer: &Analyzer) -> Result<()> {
    for relation in &stage.relations {
        match relation {
            Relation::Split { parent, outer, inner, factor, nparts, .. } => {
                let extent = range_of(ranges, parent, stage)?.extent.clone();
                let (outer_extent, inner_extent) = match (factor, nparts) {
                    (Some(factor), _) => {
                        let factor = factor_for(&extent, factor, thread_of(stage, inner).is_some());
                        (extent.ceil_div(&factor), factor)
                    }
                    (None, Some(nparts)) => (nparts.clone(), extent.ceil_div(nparts)),
                    (None, None) => crate::error::fail!(Internal, "a split of `{}` by nothing", parent.var.name()),
                };
                for (axis, extent) in [(outer, outer_extent), (inner, inner_extent)] {
                    let range = Range::until(analyzer.simplify(&extent));
                    set_range(ranges, axis, range, stage, analyzer)?;
                }
            }
            Relation::Fuse { outer, inner, fused } => {
                let (a, b) = (&range_of(ranges, outer, stage)?.extent, &range_of(ranges, inner, stage)?.extent);
                let range = Range::until(analyzer.simplify(&(a * b)));
                set_range(ranges, fused, range, stage, analyzer)?;
            }
            Relation::Rebase { parent, rebased } => {
                let range = Range::until(&range_of(ranges, parent, stage)?.extent);
                set_range(ranges, rebased, range, stage, analyzer)?;
            }
            Relation::Singleton { axis } => set_range(ranges, axis, Range::until(1), stage, analyzer)?,
        }
    }
    for leaf in loops(stage) {
        if leaf.kind == IterKind::ThreadIndex {
            if let Some(dom) = &leaf.dom {
                set_range(ranges, leaf, dom.clone(), stage, analyzer)?;
            }
        } else if let Some(thread) = stage.thread_of(leaf) {
            if let Some(dom) = &thread.dom {
                set_range(ranges, thread, dom.clone(), stage, analyzer)?;
            }
            let range = Range::until(&range_of(ranges, leaf, stage)?.extent);
            set_range(ranges, thread, range, stage, analyzer)?;
        }
    }
    Ok(())
}

/// A part is not longer than the whole, unless threads run it: their number is fixed.
fn factor_for(extent: &Expr, factor: &Expr, threads: bool) -> Expr {
    match (extent.as_int(), factor.as_int()) {
        (Some(extent), Some(factor)) if extent < factor && !threads => Expr::int(extent.max(1)),
        _ => factor.clone(),
    }
}

/// The start of a part of a split, relative to the start of the axis.
fn part_start(outer: &Expr, extent: &Expr, inner_extent: &Expr, tail: Tail, analyzer: &Analyzer) -> Expr {
    let start = outer * inner_extent;
    match tail {
        Tail::Guard | Tail::Predicate => start,
        Tail::ShiftInwards => {
            let shifted = start.min(extent - inner_extent);
            if analyzer.can_prove(&extent.greater_equal(inner_extent)) { shifted } else { shifted.max(0) }
        }
    }
}

/// Computes the values of the parent axes of relations from values of the leaves.
///
/// # Errors
/// Returns an error for an axis without a range.
pub fn pass_up_values(
    stage: &Stage,
    ranges: &RangeMap,
    values: &mut HashMap<IterVar, Expr>,
    analyzer: &Analyzer,
) -> Result<()> {
    for relation in stage.relations.iter().rev() {
        match relation {
            Relation::Split { parent, outer, inner, tail, .. } => {
                let (Some(outer), Some(value)) = (values.get(outer), values.get(inner)) else {
                    continue;
                };
                let range = range_of(ranges, parent, stage)?;
                let inner_extent = &range_of(ranges, inner, stage)?.extent;
                let value = part_start(outer, &range.extent, inner_extent, *tail, analyzer) + value + &range.min;
                values.insert(parent.clone(), value);
            }
            Relation::Fuse { outer, inner, fused } => {
                let Some(value) = values.get(fused).cloned() else {
                    continue;
                };
                let (slow, fast) = (range_of(ranges, outer, stage)?, range_of(ranges, inner, stage)?);
                let (quotient, remainder) = match (slow.extent.as_int(), fast.extent.as_int()) {
                    (Some(1), _) => (Expr::int(0), value),
                    // The extent is 0: the loop does not run.
                    (_, Some(..=1)) => (value, Expr::int(0)),
                    _ => (value.floor_div(&fast.extent), value.floor_mod(&fast.extent)),
                };
                values.insert(outer.clone(), quotient + &slow.min);
                values.insert(inner.clone(), remainder + &fast.min);
            }
            Relation::Rebase { parent, rebased } => {
                let Some(value) = values.get(rebased).cloned() else {
                    continue;
                };
                values.insert(parent.clone(), value + &range_of(ranges, parent, stage)?.min);
            }
            Relation::Singleton { .. } => {}
        }
    }
    Ok(())
}

/// Computes the sets of the parent axes of relations from sets of the leaves.
///
/// # Errors
/// Returns an error for an axis without a range.
pub fn pass_up_sets(
    stage: &Stage,
    ranges: &RangeMap,
    sets: &mut HashMap<IterVar, IntSet>,
    analyzer: &Analyzer,
) -> Result<()> {
    for relation in stage.relations.iter().rev() {
        match relation {
            Relation::Split { parent, outer, inner, tail, .. } => {
                let (Some(a), Some(b)) = (sets.get(outer).cloned(), sets.get(inner).cloned()) else {
                    continue;
                };
                let whole = range_of(ranges, parent, stage)?;
                let (slow, fast) = (range_of(ranges, outer, stage)?, range_of(ranges, inner, stage)?);
                // Taken together, the parts do not extend beyond the end.
                let set = if a.matches(slow, analyzer) && b.matches(fast, analyzer) {
                    IntSet::of_range(whole)
                } else {
                    let start = part_start(&outer.var, &whole.extent, &fast.extent, *tail, analyzer);
                    let value = start + &inner.var + &whole.min;
                    let parts = HashMap::from([(outer.var.clone(), a), (inner.var.clone(), b)]);
                    IntSet::evaluate(&value, &parts, analyzer)
                };
                sets.insert(parent.clone(), set);
            }
            Relation::Fuse { outer, inner, fused } => {
                let Some(set) = sets.get(fused).cloned() else {
                    continue;
                };
                let (slow, fast) = (range_of(ranges, outer, stage)?, range_of(ranges, inner, stage)?);
                let (a, b) = if set.matches(range_of(ranges, fused, stage)?, analyzer) {
                    (IntSet::of_range(slow), IntSet::of_range(fast))
                } else {
                    unfused(&set, slow, fast, analyzer)
                };
                sets.insert(outer.clone(), a);
                sets.insert(inner.clone(), b);
            }
            Relation::Rebase { parent, rebased } => {
                let Some(set) = sets.get(rebased).cloned() else {
                    continue;
                };
                let min = &range_of(ranges, parent, stage)?.min;
                let value = min + &rebased.var;
                let set = IntSet::evaluate(&value, &HashMap::from([(rebased.var.clone(), set)]), analyzer);
                sets.insert(parent.clone(), set);
            }
            Relation::Singleton { .. } => {}
        }
    }
    Ok(())
}

/// The parts of two axes that a part of their fusion covers.
fn unfused(set: &IntSet, slow: &Range, fast: &Range, analyzer: &Analyzer) -> (IntSet, IntSet) {
    let (Some(low), Some(high)) = (set.min().cloned(), set.max().cloned()) else {
        return match set {
            IntSet::Nothing => (IntSet::Nothing, IntSet::Nothing),
            IntSet::Interval { .. } => (IntSet::of_range(slow), IntSet::of_range(fast)),
        };
    };
    let extent = &fast.extent;
    if slow.extent.is_int(1) {
        return (IntSet::point(&slow.min), IntSet::interval(low + &fast.min, high + &fast.min));
    }
    if extent.is_int(1) || extent.is_int(0) {
        return (IntSet::interval(low + &slow.min, high + &slow.min), IntSet::of_range(fast));
    }
    let simplify = |expr: Expr| analyzer.simplify(&expr);
    let (first, last) = (simplify(low.floor_div(extent)), simplify(high.floor_div(extent)));
    if set.as_point().is_some() {
        let rest = simplify(low.floor_mod(extent) + &fast.min);
        return (IntSet::point(simplify(first + &slow.min)), IntSet::point(rest));
    }
    let count = simplify(&high - &low + 1);
    if analyzer.can_prove(&first.equals(&last)) {
        // Inside one row.
        let start = analyzer.simplify(&(low.floor_mod(extent) + &fast.min));
        let end = analyzer.simplify(&(&start + count - 1));
        return (IntSet::point(analyzer.simplify(&(first + &slow.min))), IntSet::interval(start, end));
    }
    let rows = match (count.as_int(), extent.as_int()) {
        // This is the maximum number of rows, for any alignment of the elements; and exactly the
        // number of whole rows if they start at the start of a row.
        (Some(count), Some(extent)) if count > 0 => {
            let aligned = analyzer.can_prove(&low.floor_mod(extent).equals(0));
            Some(if aligned { (count + extent - 1) / extent } else { (count + extent - 2) / extent + 1 })
        }
        _ => None,
    };
    let start = analyzer.simplify(&(&first + &slow.min));
    let end = match rows {
        Some(rows) => &start + (rows - 1),
        None => last + &slow.min,
    };
    (IntSet::interval(start, analyzer.simplify(&end)), IntSet::of_range(fast))
}

/// Axes whose value, computed from the leaves, can be beyond their end: a split factor does not
/// divide their extent.
///
/// The outer part of such an axis is excluded: it is in bounds where the axis is.
///
/// # Errors
/// Returns an error for an axis without a range.
pub fn overrunning(stage: &Stage, ranges: &RangeMap, analyzer: &Analyzer) -> Result<HashSet<IterVar>> {
    let mut overrunning = HashSet::new();
    let mut implied = HashSet::new();
    for relation in &stage.relations {
        let Relation::Split { parent, outer, inner, tail, .. } = relation else {
            continue;
        };
        let extent = &range_of(ranges, parent, stage)?.extent;
        let (slow, fast) = (&range_of(ranges, outer, stage)?.extent, &range_of(ranges, inner, stage)?.extent);
        let exact = match tail {
            Tail::Guard | Tail::Predicate => analyzer.can_prove(&extent.equals(slow * fast)),
            Tail::ShiftInwards => analyzer.can_prove(&extent.greater_equal(fast)),
        };
        if !exact {
            overrunning.insert(parent.clone());
            if *tail != Tail::ShiftInwards {
                implied.insert(outer.clone());
            }
        }
    }
    overrunning.retain(|axis| !implied.contains(axis));
    Ok(overrunning)
}

/// These axes and all axes derived from them.
pub fn made_of(stage: &Stage, axes: impl IntoIterator<Item = IterVar>) -> HashSet<IterVar> {
    let mut made: HashSet<IterVar> = axes.into_iter().collect();
    // Rebase relations are at the front, then parents come before children.
    for relation in &stage.relations {
        if relation.parents().into_iter().any(|parent| made.contains(parent)) {
            made.extend(relation.children().into_iter().cloned());
        }
    }
    made
}
