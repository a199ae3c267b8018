//! Matrix products and convolutions: `C[.., i, j] = sum over k of A[.., i, k] * B[.., k, j]`, for
//! any order of the dimensions of `A` and `B`, with an elementwise epilogue on `C`. `k` may be
//! several axes, and `A` may have any indices that do not depend on `j`: a convolution is such a
//! product, where `i` is a row of pixels and `j` the output channel.
//!
//! A tile of `C` stays in registers over all of `k`. `B` is packed into panels as wide as a tile,
//! so that it is read sequentially. The tile is as large as the registers allow: rows x vectors of
//! accumulators, the vectors of `B` and one broadcast of `A`. Rows are divided evenly.

use super::pattern::{Computed, axis_of, computed, depends_on, extent_of, is_injective, is_reduction, readers, reads};
use super::reduction::source_of;
use super::tile::tile;
use super::{Outcome, TargetDescription, decline, elements_of, pays};
use crate::error::Result;
use crate::ir::{BinaryOp, DataTypeExt, Expr, ExprNode, IterVar, Tensor};
use crate::schedule::{Attach, Schedule, StageId, Tail};

/// The operands of a product.
struct Product {
    /// The operand that is read along the rows of the result.
    a: Tensor,
    /// The operand that is read along its columns.
    b: Tensor,
    /// The dimension of `b` that is the last one of the result.
    b_column: usize,
    /// The batch dimensions of `b`.
    b_batch: Vec<usize>,
    /// The axes that only `a` has.
    rows: Vec<IterVar>,
}

/// The operands, if a reduction is a product.
fn product(parts: &Computed) -> core::result::Result<Product, String> {
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else {
        return Err("it is not a reduction".into());
    };
    let is_sum = reducer.results.len() == 1
        && matches!(reducer.results.get(0).as_deref(), Some(ExprNode::Binary { op: BinaryOp::Add, .. }));
    if !is_sum || sources.len() != 1 || !condition.is_true() || !init.is_empty() {
        return Err("it is not a plain sum".into());
    }
    let source = source_of(&parts.body).expect("a reduction has a source");
    let ExprNode::Binary { op: BinaryOp::Mul, .. } = &*source else {
        return Err("what is summed is not a product".into());
    };
    let operands = reads(&source);
    let [x, y] = &operands[..] else { return Err("it does not read two tensors".into()) };
    if !is_plain(&source) {
        return Err("its operands are not read as they are".into());
    }
    let Some(column) = parts.axes.last() else { return Err("it has no columns".into()) };
    let has = |indices: &[Expr], axis: &IterVar| indices.iter().any(|index| depends_on(index, axis));
    let (a, b) = match (has(&x.1, column), has(&y.1, column)) {
        (false, true) => (x, y),
        (true, false) => (y, x),
        _ => return Err("its columns are not those of one operand".into()),
    };
    let all: Vec<IterVar> = parts.axes.iter().chain(&parts.reduce_axes).cloned().collect();
    let b_axes: Option<Vec<IterVar>> = b.1.iter().map(|index| axis_of(index, &all).cloned()).collect();
    let Some(b_axes) = b_axes else { return Err("its second operand is read at computed places".into()) };
    if !parts.reduce_axes.iter().all(|axis| has(&a.1, axis) && b_axes.contains(axis)) {
        return Err("an operand is not read along the sum".into());
    }
    let in_a = |axis: &&IterVar| has(&a.1, axis);
    let in_b = |axis: &&IterVar| b_axes.contains(axis);
    let batch: Vec<IterVar> = parts.axes.iter().filter(|axis| in_a(axis) && in_b(axis)).cloned().collect();
    let rows: Vec<IterVar> = parts.axes.iter().filter(|axis| in_a(axis) && !in_b(axis)).cloned().collect();
    if parts.axes.iter().filter(|axis| in_b(axis) && !in_a(axis)).count() != 1 {
        return Err("it has columns in several dimensions".into());
    }
    if parts.axes.iter().any(|axis| !in_a(&axis) && !in_b(&axis)) {
        return Err("a dimension is in neither operand".into());
    }
    let b_column = b_axes.iter().position(|axis| axis == column).expect("b has the columns");
    let b_batch = (0..b_axes.len()).filter(|&index| batch.contains(&b_axes[index])).collect();
    Ok(Product { a: a.0.clone(), b: b.0.clone(), b_column, b_batch, rows })
}

/// Returns true if the operands of a product are reads, or casts of reads.
fn is_plain(source: &Expr) -> bool {
    let ExprNode::Binary { a, b, .. } = &**source else { return false };
    [a, b].into_iter().all(|side| match &**side {
        ExprNode::TensorRead { .. } => true,
        ExprNode::Cast { value, .. } => matches!(&**value, ExprNode::TensorRead { .. }),
        _ => false,
    })
}

/// Schedules a product that is an output, or an output whose elements are expressions of a
/// product's elements.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let out = schedule[id].operation().clone();
    let core = match core_of(schedule, id) {
        Ok(core) => core,
        Err(reason) => decline!("{reason}"),
    };
    let op = schedule[core].operation().clone();
    let Some(parts) = computed(&op) else { decline!("`{}` has several results", op.name()) };
    let product = match product(&parts) {
        Ok(product) => product,
        Err(reason) => decline!("`{}`: {reason}", op.name()),
    };
    let dtype = op.output(0).dtype;
    if !dtype.is_float() {
        decline!("`{}` is a product of {}", op.name(), dtype.short_name());
    }
    let mut extents = parts.axes.iter().chain(&parts.reduce_axes).map(extent_of);
    if extents.any(|extent| extent.is_none())
        && let Outcome::Applied = super::ranged::apply(schedule, id, target)?
    {
        return Ok(Outcome::Applied);
    }
    let Some(out_parts) = computed(&out) else { decline!("`{}` has several results", out.name()) };
    let out_axes = out_parts.axes;
    let position = |axis: &IterVar| parts.axes.iter().position(|other| other == axis).expect("an axis of the product");
    let lanes = target.lanes(dtype.bits());
    let rows = product.rows.last();
    let row_extent = rows.map_or(Some(1), extent_of);
    let depth = parts.reduce_axes.iter().try_fold(1i64, |product, axis| product.checked_mul(extent_of(axis)?));
    let row_bytes =
        depth.filter(|_| parts.reduce_axes.len() == 1).map(|depth| depth * i64::from(product.a.dtype.bits()) / 8);
    let is_transposed = product.b_column + 1 != product.b.shape.len();
    if row_extent == Some(1) && !is_transposed {
        decline!("`{}` has a single row: its operand is read once, in order", op.name());
    }
    let (mut height, mut vectors) = tile(target, row_extent, row_bytes);
    let columns = parts.axes.last().and_then(extent_of);
    while vectors > 1 && columns.is_some_and(|columns| columns <= lanes * (vectors / 2)) {
        vectors /= 2;
    }
    if row_extent.is_none() {
        height = height.max(1);
    }
    let width = lanes * vectors;
    // Eight or more multiply-adds take as long as one other operation.
    let work = elements_of(parts.axes.iter().chain(&parts.reduce_axes)).map(|work| work / 4);
    // Packing B is profitable if it is read often, and if it is not in order.
    let is_read_often = row_extent.is_none_or(|rows| rows >= 4 * height) && pays(target, work);
    let packs = is_read_often || is_transposed && row_extent.is_none_or(|rows| rows > 4);
    if packs
        && !is_transposed
        && let Outcome::Applied = super::blocks::apply(schedule, id, target)?
    {
        return Ok(Outcome::Applied);
    }
    // The panels of B.
    let packed = if packs { Some(pack(schedule, core, &product, width)?) } else { None };
    // The tile, in registers.
    let local = if core == id {
        schedule.cache_write(&op.output(0), "local")?
    } else {
        schedule.stage(core).set_scope("local")?;
        op.output(0)
    };
    let mut stage = schedule.stage(id);
    let column = out_axes.last().expect("a product has columns").clone();
    // Without threads, which must not write the same elements, the last columns overlap with
    // previous ones, which avoids a mask.
    let overlaps = packed.is_none() && !pays(target, work) && columns.is_some_and(|columns| columns >= width);
    let tail = if overlaps { Tail::ShiftInwards } else { Tail::Guard };
    let (jo, ji) = stage.split_tail(&column, width, tail)?;
    let mut order = Vec::new();
    let outer: Vec<IterVar> = out_axes[..out_axes.len() - 1].to_vec();
    let row = rows.map(|row| out_axes[position(row)].clone());
    order.extend(outer.iter().filter(|axis| Some(*axis) != row.as_ref()).cloned());
    // Several panels of B that fit into half of the L2 cache stay there while the rows are
    // processed.
    let panel_bytes = depth.map_or(width * 4096, |depth| depth * width * i64::from(dtype.bits()) / 8);
    let panels = (target.l2_bytes / 2 / panel_bytes.max(1)).max(1);
    let is_small = row_extent.is_some_and(|rows| rows <= 256);
    let (jc, jr) = if is_small { (jo, None) } else { stage.split(&jo, panels).map(|(jc, jr)| (jc, Some(jr)))? };
    let mut tiles = Vec::new();
    match &row {
        Some(row) => {
            let (io, ii) = stage.split(row, height)?;
            order.extend([jc.clone(), io.clone()]);
            order.extend(jr.clone());
            tiles.push(ii);
        }
        None => {
            order.push(jc.clone());
            order.extend(jr.clone());
        }
    }
    let inside = order.last().expect("there is a loop over panels").clone();
    let all: Vec<IterVar> = order.iter().chain(&tiles).chain([&ji]).cloned().collect();
    stage.reorder(&all)?;
    for tile in &tiles {
        stage.unroll(tile)?;
    }
    stage.vectorize(&ji)?;
    if pays(target, work) {
        // A loop of one iteration cannot be distributed.
        let shared = order.iter().find(|axis| extent_of(axis) != Some(1)).unwrap_or(&order[0]).clone();
        stage.parallel(&shared)?;
    }
    if let Some(packed) = packed {
        // For few rows, a panel is packed when it is used, and is still in a cache then.
        if is_small {
            schedule.stage(&packed).compute_at(id, &jc)?;
        } else {
            let mut stage = schedule.stage(&packed);
            let first = stage.get()?.leaves[0].clone();
            stage.parallel(&first)?;
        }
    }
    let mut stage = schedule.stage(&local);
    let own = stage.get()?.leaves.clone();
    let (data, reduce) = own.split_at(parts.axes.len());
    let (first, last) = data.split_at(data.len() - 1);
    let order: Vec<IterVar> = reduce.iter().chain(first).chain(last).cloned().collect();
    stage.reorder(&order)?;
    for axis in first {
        stage.unroll(axis)?;
    }
    stage.vectorize(&last[0])?;
    stage.compute_at(id, &inside)?;
    Ok(Outcome::Applied)
}

/// Returns the reduction that is the stage itself, or the one from whose elements the stage's
/// elements are computed; or the reason why there is none.
pub(crate) fn core_of(schedule: &Schedule, id: StageId) -> core::result::Result<StageId, String> {
    let out = schedule[id].operation();
    if is_reduction(out) {
        return Ok(id);
    }
    let found: Vec<StageId> = schedule
        .stages()
        .filter(|&other| {
            !schedule[other].is_placeholder()
                && schedule[other].attach == Attach::Root
                && is_reduction(schedule[other].operation())
                && readers(schedule, other) == [id]
        })
        .collect();
    let [core] = found[..] else { return Err(format!("`{}` is not a product and does not contain one", out.name())) };
    if !is_injective(out) || !reads_in_place(schedule, id, core) {
        return Err(format!("`{}` does not read `{}` element by element", out.name(), schedule[core].name()));
    }
    Ok(core)
}

/// Returns true if each element of one stage is an expression of the same element of another.
pub(crate) fn reads_in_place(schedule: &Schedule, id: StageId, core: StageId) -> bool {
    let (Some(out), Some(inner)) = (computed(schedule[id].operation()), computed(schedule[core].operation())) else {
        return false;
    };
    if out.axes.len() != inner.axes.len() {
        return false;
    }
    let op = schedule[core].operation().clone();
    let direct = |body: &Expr, axes: &[IterVar]| {
        reads(body).iter().filter(|(tensor, _)| tensor.op == op).all(|(_, indices)| {
            indices.len() == axes.len() && indices.iter().zip(axes).all(|(index, axis)| index == axis.var.expr())
        })
    };
    // Stages in between that are inlined also read in place.
    schedule.stages().all(|other| {
        let reads_core = schedule.consumers(core).contains(&other);
        !reads_core || computed(schedule[other].operation()).is_some_and(|parts| direct(&parts.body, &parts.axes))
    })
}

/// Packs an operand into panels: `[.., column / width][k][column % width]`, with zeros after the
/// last column.
fn pack(schedule: &mut Schedule, core: StageId, product: &Product, width: i64) -> Result<Tensor> {
    let copy = schedule.cache_read(&product.b, "global", [core])?;
    let mut stage = schedule.stage(&copy);
    let own = stage.get()?.leaves.clone();
    let column = own[product.b_column].clone();
    let (panel, lane) = stage.split(&column, width)?;
    // Batch axes stay in front; then panels, the sum, and the columns of a panel.
    let (batch, others): (Vec<usize>, Vec<usize>) =
        (0..own.len()).filter(|&index| index != product.b_column).partition(|index| product.b_batch.contains(index));
    let axis = |index: &usize| own[*index].clone();
    let order: Vec<IterVar> =
        batch.iter().map(axis).chain([panel]).chain(others.iter().map(axis)).chain([lane]).collect();
    stage.reorder(&order)?;
    let packed = schedule.cache_write(&copy, "global")?;
    schedule.stage(&copy).compute_inline()?;
    let mut stage = schedule.stage(&packed);
    let own = stage.get()?.leaves.clone();
    let last = own.last().expect("panels have columns").clone();
    let is_in_order = product.b_column + 1 == product.b.shape.len();
    if is_in_order {
        stage.vectorize(&last)?;
    } else {
        // The columns are far apart: some elements of each are read in order, and are written to
        // lines that are still in the L1 cache.
        let first_sum = batch.len() + 1;
        let run = if others.len() > 1 { 4 } else { 16 };
        let (outer, inner) = stage.split(&own[first_sum], run)?;
        let rest = &own[first_sum + 1..own.len() - 1];
        let order: Vec<IterVar> = own[..first_sum].iter().chain([&outer, &last, &inner]).chain(rest).cloned().collect();
        stage.reorder(&order)?;
    }
    Ok(packed)
}
