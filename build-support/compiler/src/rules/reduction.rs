//! Reductions: over the last axis with several vectors of partial results, over outer axes with
//! vectors along the last one.

use super::pattern::{depends_on, extent_of, is_reduction, reads, reduced, widest};
use super::places::narrow;
use super::{Outcome, TargetDescription, decline, elements_of, extremum, pays};
use crate::error::Result;
use crate::ir::{Expr, ExprNode, IterVar, Tensor};
use crate::schedule::{Schedule, StageId};

/// The number of vectors of partial results, because additions to one vector depend on each other.
const ACCUMULATORS: i64 = 4;
/// The number of rows that are added at a time: fewer than the number of L1 cache lines for rows
/// that are 4 KiB apart, so that one line is left for the sums. Measured in microseconds for the
/// sums of 1024 columns with 2, 4, 6, 8 and 16 rows: 62, 57, 56, 61, 138; with lines prefetched 4
/// to 24 rows ahead: 86 to 124.
const ROWS: i64 = 6;
/// The number of result elements that stay in the L1 cache, and the minimum number for a separate
/// thread.
const CHUNK: i64 = 2048;
const MIN_CHUNK: i64 = 1024;

/// Returns true if adjacent elements along an axis are adjacent in memory for all reads of a body;
/// false if nothing is read along the axis.
pub(crate) fn is_contiguous(body: &Expr, axis: &IterVar) -> bool {
    let mut along = 0;
    for (_, indices) in reads(body) {
        let depends: Vec<usize> = (0..indices.len()).filter(|&index| depends_on(&indices[index], axis)).collect();
        match depends[..] {
            [] => {}
            [only] if only + 1 == indices.len() => along += 1,
            _ => return false,
        }
    }
    along > 0
}

/// Schedules a reduction.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let op = schedule[id].operation().clone();
    if !is_reduction(&op) {
        decline!("`{}` is not a reduction", op.name());
    }
    if extremum::apply(schedule, id, target)? {
        return Ok(Outcome::Applied);
    }
    let id = narrow(schedule, id)?;
    let op = schedule[id].operation().clone();
    let Some(parts) = reduced(&op) else { decline!("`{}` is not computed by an expression", op.name()) };
    let inner = parts.reduce_axes.last().expect("a reduction has an axis");
    let lanes = target.lanes(widest(&op)) * ACCUMULATORS;
    // A stage's own memory is for one result.
    let is_single = op.num_outputs() == 1;
    // The axis that is distributed over the threads.
    let mut shared = parts.axes.first().cloned();
    if is_contiguous(&parts.body, inner) {
        across_lanes(schedule, &op.output(0), inner, parts.axes.last(), target)?;
    } else if let Some(last) = parts.axes.last()
        && is_contiguous(&parts.body, last)
        && extent_of(last)
            .map_or(!is_single, |extent| extent >= if is_single { 4 * lanes } else { lanes / ACCUMULATORS })
    {
        // Rows are read in memory order, several at a time; a part of the result stays in the L1
        // cache.
        let lanes = target.lanes(widest(&op));
        let extent = extent_of(last).unwrap_or(CHUNK);
        let parts_of = (extent + CHUNK - 1) / CHUNK;
        let parts_of = if extent >= 2 * MIN_CHUNK { parts_of.max(2) } else { parts_of };
        let chunk = ((extent + parts_of - 1) / parts_of + lanes - 1) / lanes * lanes;
        let mut stage = schedule.stage(id);
        let (part, row) = stage.split(last, chunk)?;
        let (vector, lane) = stage.split(&row, lanes)?;
        let (many, few) = stage.split(inner, ROWS)?;
        let outer = &parts.axes[..parts.axes.len() - 1];
        let reduce = &parts.reduce_axes[..parts.reduce_axes.len() - 1];
        let order: Vec<IterVar> =
            outer.iter().chain([&part]).chain(reduce).chain([&many, &vector, &few, &lane]).cloned().collect();
        stage.reorder(&order)?;
        stage.unroll(&few)?;
        stage.vectorize(&lane)?;
        if parts.axes.len() == 1 {
            shared = Some(part);
        }
    } else if let Some(last) = parts.axes.last()
        && is_single
        && is_contiguous(&parts.body, last)
        && extent_of(last).is_none_or(|extent| extent >= lanes)
    {
        let partial = schedule.cache_write(&op.output(0), "local")?;
        let mut stage = schedule.stage(id);
        let (outer, inner) = stage.split(last, lanes)?;
        stage.vectorize(&inner)?;
        if parts.axes.len() == 1 {
            shared = Some(outer.clone());
        }
        let mut stage = schedule.stage(&partial);
        let own = stage.get()?.leaves.clone();
        let (data, reduce) = own.split_at(parts.axes.len());
        let lane = data.last().expect("there is a last axis").clone();
        let order: Vec<IterVar> = data[..data.len() - 1].iter().chain(reduce).chain([&lane]).cloned().collect();
        stage.reorder(&order)?;
        stage.vectorize(&lane)?;
        stage.compute_at(id, &outer)?;
    }
    if let Some(shared) = shared
        && extent_of(&shared) != Some(1)
        && pays(target, elements_of(parts.axes.iter().chain(&parts.reduce_axes)))
    {
        schedule.stage(id).parallel(&shared)?;
    }
    Ok(Outcome::Applied)
}

/// Splits a reduction over contiguous elements into partial results for each lane, which are
/// combined by halves.
pub(crate) fn across_lanes(
    schedule: &mut Schedule,
    tensor: &Tensor,
    axis: &IterVar,
    at: Option<&IterVar>,
    target: &TargetDescription,
) -> Result<()> {
    let lanes = target.lanes(widest(&tensor.op));
    let mut width = lanes * ACCUMULATORS;
    if let Some(extent) = extent_of(axis) {
        while width > 1 && extent < width * 2 {
            width /= 2;
        }
    }
    if width < 4 {
        return Ok(());
    }
    let id = schedule.stage_of(&tensor.op).expect("the tensor is of the schedule");
    let (_, lane) = schedule.stage(id).split(axis, width)?;
    let mut partial = schedule.rfactor_at(tensor, &lane, -1)?;
    loop {
        let mut stage = schedule.stage(&partial);
        let own = stage.get()?.leaves.clone();
        let count = partial.shape.len();
        let (data, reduce) = own.split_at(count);
        let lane = data.last().expect("the factored axis").clone();
        let order: Vec<IterVar> = data[..count - 1].iter().chain(reduce).chain([&lane]).cloned().collect();
        stage.reorder(&order)?;
        stage.vectorize(&lane)?;
        stage.set_scope("local")?;
        if let Some(at) = at {
            stage.compute_at(id, at)?;
        }
        if width <= 4 {
            return Ok(());
        }
        // Quarters of the lanes are combined as vectors.
        width /= 4;
        let last = schedule[id].leaves.last().expect("the axis of the partial results").clone();
        let (_, lane) = schedule.stage(id).split(&last, width)?;
        partial = schedule.rfactor_at(tensor, &lane, -1)?;
    }
}

/// The source of a reduction.
pub(crate) fn source_of(body: &Expr) -> Option<Expr> {
    match &**body {
        ExprNode::Reduce { sources, .. } => sources.get(0),
        _ => None,
    }
}
