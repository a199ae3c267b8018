//! Softmax, layer normalization and the like: an output whose rows need reductions over the same rows. All of a row is computed while it is in the first
//! cache, rows run in parallel.

use super::pattern::{computed, extent_of, is_reduction, producers};
use super::reduction::{across_lanes, is_contiguous};
use super::{Outcome, TargetDescription, decline};
use crate::error::Result;
use crate::ir::IterVar;
use crate::schedule::{Attach, Schedule, StageId};

/// Schedules an output with the reductions that its rows need.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let op = schedule[id].operation().clone();
    let Some(parts) = computed(&op) else { decline!("`{}` is not computed by one expression", op.name()) };
    if is_reduction(&op) || parts.axes.len() < 2 {
        decline!("`{}` has no rows", op.name());
    }
    let count = parts.axes.len() - 1;
    // Everything that leads to it, as far as it is computed by rows, too.
    let mut taken: Vec<StageId> = Vec::new();
    let mut todo = vec![id];
    let mut reductions = 0;
    while let Some(reader) = todo.pop() {
        for producer in producers(schedule, reader) {
            if taken.contains(&producer) {
                continue;
            }
            let stage = &schedule[producer];
            let Some(inner) = computed(stage.operation()) else { decline!("`{}` has several results", stage.name()) };
            let is_row = inner.axes.len() == count || inner.axes.len() == count + 1;
            let same_rows = inner
                .axes
                .iter()
                .zip(&parts.axes[..count])
                .all(|(a, b)| extent_of(a).is_some() && extent_of(a) == extent_of(b) || same_extent(a, b));
            if stage.is_output || stage.attach != Attach::Root || !is_row || !same_rows {
                decline!("`{}` is not computed by the rows of `{}`", stage.name(), op.name());
            }
            if is_reduction(stage.operation()) {
                if inner.reduce_axes.len() != 1
                    || inner.axes.len() != count
                    || !is_contiguous(&inner.body, &inner.reduce_axes[0])
                {
                    decline!("`{}` reduces over something else than a row", stage.name());
                }
                reductions += 1;
            }
            taken.push(producer);
            todo.push(producer);
        }
    }
    if reductions == 0 {
        decline!("no rows of `{}` are reduced", op.name());
    }
    let lanes = target.lanes(op.output(0).dtype.bits());
    let row = parts.axes[count - 1].clone();
    let last = parts.axes[count].clone();
    vectorize_last(schedule, id, &last, lanes)?;
    for &producer in &taken {
        let inner = computed(schedule[producer].operation()).expect("it was one before");
        schedule.stage(producer).compute_at(id, &row)?;
        let tensor = schedule[producer].operation().output(0);
        if is_reduction(schedule[producer].operation()) {
            across_rows(schedule, producer, &inner.reduce_axes[0], id, &row, target, &tensor)?;
        } else if let Some(last) = inner.axes.get(count) {
            vectorize_last(schedule, producer, last, lanes)?;
        }
    }
    let mut stage = schedule.stage(id);
    let outer: Vec<IterVar> = parts.axes[..count].to_vec();
    if outer.iter().skip(1).all(|axis| extent_of(axis).is_some()) {
        // The loop that the others are computed in stays the innermost of the rows: only the outermost one is shared out.
        stage.parallel(&outer[0])?;
    }
    Ok(Outcome::Applied)
}

fn across_rows(
    schedule: &mut Schedule,
    producer: StageId,
    axis: &IterVar,
    id: StageId,
    row: &IterVar,
    target: &TargetDescription,
    tensor: &crate::ir::Tensor,
) -> Result<()> {
    let before: Vec<StageId> = schedule.stages().collect();
    across_lanes(schedule, tensor, axis, None, target)?;
    let _ = producer;
    // The partial results belong to the row as well.
    for stage in schedule.stages().collect::<Vec<_>>() {
        if !before.contains(&stage) {
            schedule.stage(stage).compute_at(id, row)?;
        }
    }
    Ok(())
}

fn vectorize_last(schedule: &mut Schedule, id: StageId, last: &IterVar, lanes: i64) -> Result<()> {
    if extent_of(last).is_none_or(|extent| extent >= lanes) {
        let mut stage = schedule.stage(id);
        let (_, lane) = stage.split(last, lanes)?;
        stage.vectorize(&lane)?;
    }
    Ok(())
}

/// Whether the extents of two axes are the same expression.
fn same_extent(a: &IterVar, b: &IterVar) -> bool {
    match (&a.dom, &b.dom) {
        (Some(a), Some(b)) => kernpack::structural::equal(&a.extent, &b.extent).unwrap_or(false),
        _ => false,
    }
}
