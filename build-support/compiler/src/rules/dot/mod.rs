//! Matrix products of bytes: `C[.., i, j] = sum over k of i32(A[.., i, k]) * i32(B[.., k, j])`,
//! with an elementwise epilogue on `C`.
//!
//! `B` is packed in panels of 16 columns, and within a panel in groups of four rows:
//! `[column / 16][k / 4][column % 16][k % 4]`. Vector instructions for unsigned and signed bytes
//! (VNNI) add four products to each sum. On other targets, bytes are widened to 16 bits, of which
//! two products are added: the sums of the first and the second half of each group of four are
//! adjacent until the end. Both read the same panels, so constant weights that are already packed
//! are read in place: a tensor of that shape, read at these indices. Other operands are copied.

mod convolution;
mod kernel;

use super::code::{Inputs, current};
use super::gemm::reads_in_place;
use super::pattern::{
    Computed, axis_of, computed, depends_on, extent_from_zero, extent_of, is_injective, is_reduction, readers, reads,
    with_sum,
};
use super::reduction::source_of;
use super::row_tiles::Rows;
use super::{Outcome, TargetDescription, decline};
use crate::error::Result;
use crate::ir::{
    BinaryOp, DataTypeExt, Expr, ExprNode, I32, IterVar, Operation, Stmt, Tensor, Var, VarMap, substitute,
};
use crate::schedule::{Attach, Schedule, StageId};

/// The number of columns of a panel.
pub(crate) const COLUMNS: i64 = 16;
/// The number of adjacent rows of the second operand.
pub(crate) const DEPTH: i64 = 4;

/// A product with fused operations, as functions of positions.
struct Product {
    /// The operation that is computed.
    out: Operation,
    /// The axes of the operation.
    axes: Vec<Var>,
    /// The axes of the result that both operands have.
    batch: Rows,
    /// The axes of the result that only the first operand has.
    rows: Rows,
    /// The last axis.
    column: (Var, i64),
    /// The reduction axis.
    depth: (Var, i64),
    /// An element of the first operand, of 8 bits.
    a: Expr,
    /// An element of the second operand.
    b: Expr,
    /// The second operand, if it is packed in panels.
    panels: Option<Tensor>,
    /// The value that is written, given the sum.
    value: Expr,
    sum: Var,
}

/// Schedules a product of bytes that is an output, or an output whose elements are expressions of a
/// product's elements.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let operation = match find(schedule, id)? {
        Ok(Found::Product(product)) => kernel::operation(&product, target),
        Ok(Found::Convolution(convolution)) => match convolution.operation(target) {
            Ok(operation) => operation,
            Err(reason) => decline!("{reason}"),
        },
        Err(reason) => decline!("{reason}"),
    };
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}

/// The computation of a stage.
enum Found {
    Product(Product),
    Convolution(convolution::Convolution),
}

/// Returns the product of a stage, which may have an epilogue, or the reason why there is none.
fn find(schedule: &Schedule, id: StageId) -> Result<core::result::Result<Found, String>> {
    let name = schedule[id].name().to_owned();
    let is_whole = is_reduction(schedule[id].operation());
    let found: Vec<StageId> = if is_whole {
        vec![id]
    } else {
        let is_core = |other: &StageId| {
            let stage = &schedule[*other];
            !stage.is_placeholder()
                && !stage.is_output
                && stage.attach == Attach::Root
                && is_reduction(stage.operation())
                && readers(schedule, *other) == [id]
                && computed(stage.operation()).is_some_and(|parts| factors(&parts).is_ok())
        };
        schedule.stages().filter(is_core).collect()
    };
    let [core] = found[..] else {
        return Ok(Err(format!("`{name}` is not a product of bytes and does not contain one")));
    };
    if !is_whole && (!is_injective(schedule[id].operation()) || !reads_in_place(schedule, id, core)) {
        return Ok(Err(format!("`{name}` does not read `{}` element by element", schedule[core].name())));
    }
    let normal = schedule.normalize()?;
    let (Some(parts), Some(out)) = (computed(normal[core].operation()), computed(normal[id].operation())) else {
        return Ok(Err(format!("`{name}` is not computed by one expression")));
    };
    let core_op = normal[core].operation().clone();
    let out_op = schedule[id].operation();
    let by_place = |reason: String| format!("`{}`: {reason}", core_op.name());
    if parts.reduce_axes.len() > 1 {
        let described = convolution::describe(&parts, &out, &core_op, out_op, is_whole);
        return Ok(described.map_err(by_place).map(|mut convolution| {
            for expr in [&mut convolution.source, &mut convolution.weight, &mut convolution.value] {
                *expr = current(expr, schedule, &normal);
            }
            Found::Convolution(convolution)
        }));
    }
    let described = describe(&parts, &out, &core_op, out_op, is_whole);
    Ok(described.map_err(by_place).map(|mut product| {
        for expr in [&mut product.a, &mut product.b, &mut product.value] {
            *expr = current(expr, schedule, &normal);
        }
        // The operand is still packed, whichever tensor it is in the schedule itself.
        if product.panels.is_some()
            && let ExprNode::TensorRead { tensor, .. } = &*product.b
        {
            product.panels = Some(tensor.clone());
        }
        Found::Product(product)
    }))
}

/// The factors of the summed products, without the surrounding casts.
fn factors(parts: &Computed) -> core::result::Result<(Expr, Expr), String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else {
        return fail("it is not a reduction");
    };
    let is_sum = reducer.results.len() == 1
        && sources.len() == 1
        && matches!(reducer.results.get(0).as_deref(), Some(ExprNode::Binary { op: BinaryOp::Add, .. }));
    if !is_sum || !condition.is_true() || !init.is_empty() {
        return fail("it is not a plain sum");
    }
    let source = source_of(&parts.body).expect("a reduction has a source");
    let ExprNode::Binary { op: BinaryOp::Mul, a, b, dtype } = &*source else {
        return fail("what is summed is not a product");
    };
    if *dtype != I32 {
        return fail("it is not a sum of 32-bit integers");
    }
    let byte = |factor: &Expr| match &**factor {
        ExprNode::Cast { value, .. } if value.dtype().is_integer() && value.dtype().bits() == 8 => Some(value.clone()),
        _ => None,
    };
    match (byte(a), byte(b)) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => fail("its factors are not bytes"),
    }
}

fn describe(
    parts: &Computed,
    out: &Computed,
    core_op: &Operation,
    out_op: &Operation,
    is_whole: bool,
) -> core::result::Result<Product, String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let (x, y) = factors(parts)?;
    let Some(column) = parts.axes.last() else { return fail("it has no columns") };
    let [depth] = &parts.reduce_axes[..] else { return fail("it sums over several axes") };
    let (a, b) = match (depends_on(&x, column), depends_on(&y, column)) {
        (false, true) => (x, y),
        (true, false) => (y, x),
        _ => return fail("its columns are not those of one factor"),
    };
    if !depends_on(&a, depth) || !depends_on(&b, depth) {
        return fail("a factor does not depend on what is summed over");
    }
    let constant = |axis: &IterVar| {
        extent_from_zero(axis)?.as_int().ok_or_else(|| "its columns or its terms have no constant extent".to_owned())
    };
    // The axes of the result, in their order, by those of the product.
    let own: &[IterVar] = if is_whole { &parts.axes } else { &out.axes };
    let renamed: VarMap =
        parts.axes.iter().zip(own).map(|(axis, own)| (axis.var.clone(), own.var.expr().clone())).collect();
    let (mut batch, mut rows) = (Rows::default(), Rows::default());
    let last = parts.axes.len() - 1;
    for (axis, own) in parts.axes.iter().zip(own).take(last) {
        // The result may have fewer rows and columns than the product.
        let entry = (own.var.clone(), extent_from_zero(own)?);
        // An axis that only the second factor has is also a batch axis: the first factor is the
        // same for all of it.
        if depends_on(&b, axis) { batch.0.push(entry) } else { rows.0.push(entry) }
    }
    let extents = (constant(column)?, constant(depth)?);
    let column = (own[last].var.clone(), constant(&own[last])?);
    let panels = panels_of(&b, &parts.axes[last], depth, extents);
    let sum = Var::new("sum", I32);
    let value = written(out, core_op, &sum, is_whole)?;
    Ok(Product {
        out: out_op.clone(),
        axes: own.iter().map(|axis| axis.var.clone()).collect(),
        batch,
        rows,
        column,
        depth: (depth.var.clone(), extents.1),
        a: substitute(&a, &renamed),
        b: substitute(&b, &renamed),
        panels,
        value,
        sum,
    })
}

/// The value that is written, with a variable in place of the sum.
fn written(out: &Computed, core: &Operation, sum: &Var, is_whole: bool) -> core::result::Result<Expr, String> {
    if is_whole {
        return Ok(sum.expr().clone());
    }
    let body = with_sum(core, sum, &out.body).map_err(|_| "its result cannot be written".to_owned())?;
    if reads(&body).iter().any(|(tensor, _)| tensor.op == *core) {
        return Err("the result reads it in several ways".into());
    }
    Ok(body)
}

/// The tensor of the second factor, if it is packed in panels.
fn panels_of(b: &Expr, column: &IterVar, depth: &IterVar, (columns, terms): (i64, i64)) -> Option<Tensor> {
    let ExprNode::TensorRead { tensor, indices } = &**b else { return None };
    let [panel, group, lane, part] = &indices.to_vec()[..] else { return None };
    let shape: Vec<i64> = tensor.shape.iter().map(|extent| extent.as_int()).collect::<Option<_>>()?;
    let wanted = [(columns + COLUMNS - 1) / COLUMNS, (terms + DEPTH - 1) / DEPTH, COLUMNS, DEPTH];
    let axes = [column.clone(), depth.clone()];
    // An index that is always 0 may have been simplified.
    let is_part = |index: &Expr, axis: &IterVar, by: i64, op: BinaryOp| match &**index {
        ExprNode::Binary { op: own, a, b, .. } => *own == op && b.is_int(by) && axis_of(a, &axes) == Some(axis),
        _ => match op {
            BinaryOp::FloorDiv => index.is_int(0) && extent_of(axis).is_some_and(|extent| extent <= by),
            _ => axis_of(index, &axes) == Some(axis) && extent_of(axis).is_some_and(|extent| extent <= by),
        },
    };
    let fits = shape == wanted
        && is_part(panel, column, COLUMNS, BinaryOp::FloorDiv)
        && is_part(group, depth, DEPTH, BinaryOp::FloorDiv)
        && is_part(lane, column, COLUMNS, BinaryOp::FloorMod)
        && is_part(part, depth, DEPTH, BinaryOp::FloorMod);
    fits.then(|| tensor.clone())
}

impl Product {
    /// Creates the operation that computes the product by statements.
    fn operation(&self, body: impl FnOnce(&Inputs, &crate::ir::Buffer) -> Stmt) -> Operation {
        let inputs = Inputs::of([&self.a, &self.b, &self.value]);
        inputs.operation(&format!("{}.dot", self.out.name()), &self.out, body)
    }
}
