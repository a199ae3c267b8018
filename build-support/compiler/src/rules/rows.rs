//! Softmax, layer normalization and similar operations: an output whose rows need reductions over
//! the same rows. A whole row is computed while it is in the L1 cache, and rows run in parallel.

use super::pattern::{chains, computed, depends_on, extent_of, is_reduction, producers, readers, reads};
use super::reduction::{across_lanes, is_contiguous};
use super::{Outcome, TargetDescription, decline, elements_of, pays};
use crate::error::Result;
use crate::ir::mutate::{Mutate, mutate_expr_parts};
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, IterVar, Operation, OperationNode, Stmt, Tensor};
use crate::schedule::{Attach, Schedule, StageId};

/// The maximum size of a row on the stack, in bytes.
const STACK_BYTES: i64 = 16 << 10;
/// The sizes in bytes of rows for which the next one is prefetched in the meantime: some of them
/// have to fit into the L1 cache, and there has to be time to load them. The hardware prefetcher
/// stops at the end of a page. Softmax of 1024 rows of 4 KiB: 284 and 305 microseconds with and
/// without prefetching; with additional prefetches of result rows: 294.
const AHEAD_BYTES: core::ops::RangeInclusive<i64> = 512..=8 << 10;

/// Schedules an output with the reductions that its rows need.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let op = schedule[id].operation().clone();
    let Some(parts) = computed(&op) else { decline!("`{}` is not computed by one expression", op.name()) };
    if is_reduction(&op) || parts.axes.len() < 2 {
        decline!("`{}` has no rows", op.name());
    }
    let count = parts.axes.len() - 1;
    // All producers, as far as they are also computed by rows.
    let mut taken: Vec<StageId> = Vec::new();
    let mut todo = vec![id];
    let mut reductions = 0;
    while let Some(reader) = todo.pop() {
        for producer in producers(schedule, reader) {
            if taken.contains(&producer) {
                continue;
            }
            // A stage with several readers is computed before all of them: it is visited again
            // after the last of its readers.
            let all = readers(schedule, producer);
            if !all.iter().all(|reader| *reader == id || taken.contains(reader)) {
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
    for &stage in taken.iter().chain([&id]) {
        multiply_by_reciprocals(schedule, stage, count)?;
    }
    let lanes = target.lanes(op.output(0).dtype.bits());
    let work = elements_of(&parts.axes).map(|elements| elements.saturating_mul(8));
    // The loop that is distributed: of as many dimensions as possible, because each may be short.
    // With unknown extents behind the first one, it would divide by them for each row.
    let known = parts.axes[1..count].iter().take_while(|axis| extent_of(axis).is_some()).count();
    let shared = match pays(target, work) {
        true => Some(schedule.stage(id).fuse_all(&parts.axes[..known + 1])?),
        false => None,
    };
    let row = match &shared {
        Some(shared) if known + 1 == count => shared.clone(),
        _ => parts.axes[count - 1].clone(),
    };
    let last = parts.axes[count].clone();
    let mut fetched = Vec::new();
    if let Some((outer, lanes)) = vectorize_last(schedule, id, &last, (target, lanes))? {
        fetch_inputs(schedule, id, (&outer, lanes), count, &mut fetched)?;
    }
    for &producer in &taken {
        let inner = computed(schedule[producer].operation()).expect("it was one before");
        schedule.stage(producer).compute_at(id, &row)?;
        let tensor = schedule[producer].operation().output(0);
        if is_reduction(schedule[producer].operation()) {
            across_row(schedule, &tensor, &inner.reduce_axes[0], (id, &row), target)?;
        } else if let Some(last) = inner.axes.get(count) {
            if let Some((outer, lanes)) = vectorize_last(schedule, producer, last, (target, lanes))? {
                fetch_inputs(schedule, producer, (&outer, lanes), count, &mut fetched)?;
            }
            // A row on the stack needs no allocation for each row.
            let bytes = extent_of(last).map(|extent| extent * i64::from(tensor.dtype.bits()) / 8);
            if bytes.is_some_and(|bytes| bytes <= STACK_BYTES) {
                schedule.stage(producer).set_scope("local")?;
            }
        }
    }
    if let Some(shared) = shared {
        schedule.stage(id).parallel(&shared)?;
    }
    Ok(Outcome::Applied)
}

/// Replaces divisions of each element by the same number by multiplications with its reciprocal, as
/// libraries do: one more rounding, and a tenth of the time.
fn multiply_by_reciprocals(schedule: &mut Schedule, id: StageId, count: usize) -> Result<()> {
    let op = schedule[id].operation().clone();
    let OperationNode::Compute { name, span, tag, attrs, axes, reduce_axes, bodies } = &*op else { return Ok(()) };
    let Some(last) = axes.get(count).filter(|_| reduce_axes.is_empty()) else { return Ok(()) };
    let mut change = Reciprocals { last, changed: false };
    let new: kernpack::Array<Expr> =
        bodies.iter().map(|body| change.mutate_expr(&body)).collect::<Result<Vec<_>>>()?.into();
    if !change.changed {
        return Ok(());
    }
    let operation = Operation::from_node(OperationNode::Compute {
        name: name.clone(),
        span: span.clone(),
        tag: tag.clone(),
        attrs: attrs.clone(),
        axes: axes.clone(),
        reduce_axes: reduce_axes.clone(),
        bodies: new,
    });
    schedule.replace(id, &operation)
}

struct Reciprocals {
    last: IterVar,
    changed: bool,
}

impl Mutate for Reciprocals {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        if let ExprNode::Binary { op: BinaryOp::Div, a, b, dtype } = &*expr
            && matches!(dtype.bits(), 32 | 64)
            && dtype.is_float()
            && b.as_float().is_none()
            && depends_on(a, &self.last)
            && !depends_on(b, &self.last)
        {
            self.changed = true;
            return Ok(a * &(Expr::float(*dtype, 1.0) / b));
        }
        Ok(expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        Ok(stmt.clone())
    }
}

/// Splits a reduction of a row that is computed in a loop of a stage; its partial results are also
/// computed there.
pub(super) fn across_row(
    schedule: &mut Schedule,
    tensor: &Tensor,
    axis: &IterVar,
    (id, row): (StageId, &IterVar),
    target: &TargetDescription,
) -> Result<()> {
    let before: Vec<StageId> = schedule.stages().collect();
    across_lanes(schedule, tensor, axis, None, target)?;
    for stage in schedule.stages().collect::<Vec<_>>() {
        if !before.contains(&stage) {
            schedule.stage(stage).compute_at(id, row)?;
        }
    }
    Ok(())
}

/// Vectorizes along a dimension; returns the loop over the vectors, and their lanes.
fn vectorize_last(
    schedule: &mut Schedule,
    id: StageId,
    last: &IterVar,
    (target, lanes): (&TargetDescription, i64),
) -> Result<Option<(IterVar, i64)>> {
    if extent_of(last).is_some_and(|extent| extent < lanes) {
        return Ok(None);
    }
    let mut chains = computed(schedule[id].operation()).map_or(1, |parts| chains(&parts.body, target));
    while chains > 1 && extent_of(last).is_none_or(|extent| extent % (lanes * chains) != 0) {
        chains /= 2;
    }
    let lanes = lanes * chains;
    let mut stage = schedule.stage(id);
    let (outer, lane) = stage.split(last, lanes)?;
    stage.vectorize(&lane)?;
    Ok(Some((outer, lanes)))
}

/// Prefetches the next rows of the inputs that a stage reads along its own rows, while it processes
/// this one; only those that are not prefetched yet.
fn fetch_inputs(
    schedule: &mut Schedule,
    id: StageId,
    (outer, lanes): (&IterVar, i64),
    count: usize,
    fetched: &mut Vec<Tensor>,
) -> Result<()> {
    let Some(parts) = computed(schedule[id].operation()) else { return Ok(()) };
    for (tensor, indices) in reads(&parts.body) {
        let is_row = matches!(*tensor.op, OperationNode::Placeholder { .. })
            && indices.len() == count + 1
            && indices.iter().zip(&parts.axes).all(|(index, axis)| index == axis.var.expr());
        let extent = tensor.shape.iter().last().and_then(|extent| extent.as_int());
        let bytes = extent.map(|extent| extent * tensor.dtype.lane_bytes() as i64);
        let (true, Some(extent), Some(true)) = (is_row, extent, bytes.map(|bytes| AHEAD_BYTES.contains(&bytes))) else {
            continue;
        };
        if !fetched.contains(&tensor) {
            schedule.stage(id).prefetch(&tensor, outer, (extent + lanes - 1) / lanes)?;
            fetched.push(tensor);
        }
    }
    Ok(())
}

/// Returns true if the extents of two axes are the same expression.
fn same_extent(a: &IterVar, b: &IterVar) -> bool {
    match (&a.dom, &b.dom) {
        (Some(a), Some(b)) => kernpack::structural::equal(&a.extent, &b.extent).unwrap_or(false),
        _ => false,
    }
}
