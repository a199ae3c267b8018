//! Matrix products with a packed second operand:
//! `C[.., i, j] = sum over k of A[.., i, k] * B[j / 16, k, j % 16]`, with an elementwise epilogue
//! on `C`. Constant weights are packed in this way at compile time; they may be in half precision
//! or bfloat16, or in a few bits with scales ([`FewBits`]), and are widened when they are loaded.
//!
//! Nothing is copied: a tile of sums stays in registers over all of `k`. For one row, all available
//! vector registers are used, each for another panel.

use super::code::{Code, Inputs, Vectors, current, for_each, memory, prefetch_later, serial};
use super::few_bits::FewBits;
use super::gemm::{core_of, reads_in_place};
use super::pattern::{Computed, axis_of, computed, depends_on, extent_from_zero, extent_of, reads, with_sum};
use super::reduction::source_of;
use super::row_tiles::{RowTile, Rows};
use super::tile::tile;
use super::{Outcome, TargetDescription, decline, shared_kind};
use crate::error::Result;
use crate::ir::{
    BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, F16, F32, ForKind, IterVar, Operation, Stmt, Var, VarMap, substitute,
};
use crate::schedule::{Schedule, StageId};

/// The number of columns of a panel.
pub(crate) const COLUMNS: i64 = 16;

/// The memory layout of the second operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In panels: `[column / 16, k, column % 16]`.
    InPanels,
    /// In rows: `[k, column]`.
    InRows,
    /// In any way; its reads may depend on further axes of the result.
    Anyhow,
}

impl Lies {
    /// Returns true if all extents have to be known, except those of rows.
    fn needs_extents(self) -> bool {
        self != Self::Anyhow
    }
}

/// A product with fused operations, as functions of positions.
pub(crate) struct Product {
    pub(crate) out: Operation,
    /// All axes of the result except the last one; then that one, and the reduction axis.
    pub(crate) rows: Rows,
    pub(crate) column: (Var, Expr),
    pub(crate) depth: (Var, Expr),
    pub(crate) a: Expr,
    pub(crate) b: Expr,
    /// The second factor, if it has a few bits.
    few_bits: Option<FewBits>,
    pub(crate) value: Expr,
    pub(crate) sum: Var,
}

/// Schedules a product that is an output, or an output whose elements are expressions of a
/// product's elements.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let product = match find(schedule, id, Lies::InPanels)? {
        Ok(product) => product,
        Err(reason) => decline!("{reason}"),
    };
    schedule.replace(id, &operation(&product, target))?;
    Ok(Outcome::Applied)
}

/// Returns the product that a stage computes, or the reason why there is none.
pub(crate) fn find(schedule: &Schedule, id: StageId, lies: Lies) -> Result<core::result::Result<Product, String>> {
    let core = match core_of(schedule, id) {
        Ok(core) => core,
        Err(reason) => return Ok(Err(reason)),
    };
    if core != id && !reads_in_place(schedule, id, core) {
        return Ok(Err(format!("`{}` is not read element by element", schedule[core].name())));
    }
    let Some(parts) = computed(schedule[core].operation()) else {
        return Ok(Err(format!("`{}` has several results", schedule[core].name())));
    };
    // Most reductions are not such products: this is checked before anything is copied.
    if let Err(reason) = factors(&parts, lies) {
        return Ok(Err(format!("`{}`: {reason}", schedule[core].name())));
    }
    let normal = schedule.normalize()?;
    let (Some(parts), Some(out)) = (computed(normal[core].operation()), computed(normal[id].operation())) else {
        return Ok(Err(format!("`{}` is not computed by one expression", schedule[id].name())));
    };
    let core_op = normal[core].operation().clone();
    let described = describe((&parts, lies), &out, &core_op, schedule[id].operation(), core == id);
    Ok(described.map_err(|reason| format!("`{}`: {reason}", core_op.name())).map(|mut product| {
        let few_bits = product.few_bits.as_mut().map(FewBits::reads).unwrap_or_default();
        for expr in [&mut product.a, &mut product.b, &mut product.value].into_iter().chain(few_bits) {
            *expr = current(expr, schedule, &normal);
        }
        product
    }))
}

/// The first factor, and the second one, which has the given layout.
fn factors(parts: &Computed, how: Lies) -> core::result::Result<(Expr, Expr), String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let ExprNode::Reduce { reducer, sources, condition, init, .. } = &*parts.body else {
        return fail("it is not a reduction");
    };
    let is_sum = reducer.results.len() == 1
        && sources.len() == 1
        && matches!(reducer.results.get(0).as_deref(), Some(ExprNode::Binary { op: BinaryOp::Add, .. }));
    let source = source_of(&parts.body).expect("a reduction has a source");
    let ExprNode::Binary { op: BinaryOp::Mul, a, b, dtype } = &*source else {
        return fail("what is summed is not a product");
    };
    if !is_sum || !condition.is_true() || !init.is_empty() || !dtype.is_float() || !matches!(dtype.bits(), 32 | 64) {
        return fail("it is not a plain sum of f32 or f64");
    }
    let ([depth], Some(column)) = (&parts.reduce_axes[..], parts.axes.last()) else {
        return fail("it sums over several axes");
    };
    let lies = |factor: &Expr, other: &Expr| {
        let is_so = match how {
            Lies::InPanels => in_panels(factor, column, depth) || FewBits::of(factor, column, depth).is_some(),
            Lies::InRows => in_rows(factor, column, depth),
            Lies::Anyhow => depends_on(factor, column),
        };
        is_so && !depends_on(other, column)
    };
    match () {
        () if lies(b, a) => Ok((a.clone(), b.clone())),
        () if lies(a, b) => Ok((b.clone(), a.clone())),
        () => fail("no factor lies in the panels or rows that are wanted"),
    }
}

/// Returns true if an operand is read at `[column / 16, k, column % 16]`.
fn in_panels(operand: &Expr, column: &IterVar, depth: &IterVar) -> bool {
    let read = match &**operand {
        ExprNode::Cast { value, dtype } if dtype.is_float() => value,
        _ => operand,
    };
    let ExprNode::TensorRead { tensor, indices } = &**read else { return false };
    let [panel, row, lane] = &indices.to_vec()[..] else { return false };
    let (Some(columns), Some(terms)) = (extent_of(column), extent_of(depth)) else { return false };
    let axes = [column.clone(), depth.clone()];
    let is_part = |index: &Expr, op: BinaryOp| match &**index {
        ExprNode::Binary { op: own, a, b, .. } => *own == op && b.is_int(COLUMNS) && axis_of(a, &axes) == Some(column),
        _ => false,
    };
    let shape: Option<Vec<i64>> = tensor.shape.iter().map(|extent| extent.as_int()).collect();
    shape.is_some_and(|shape| shape == [(columns + COLUMNS - 1) / COLUMNS, terms, COLUMNS])
        && tensor.dtype.is_float()
        && is_part(panel, BinaryOp::FloorDiv)
        && is_part(lane, BinaryOp::FloorMod)
        && axis_of(row, &axes) == Some(depth)
}

/// Returns true if an operand is read at `[k, column]`.
fn in_rows(operand: &Expr, column: &IterVar, depth: &IterVar) -> bool {
    let read = match &**operand {
        ExprNode::Cast { value, dtype } if dtype.is_float() => value,
        _ => operand,
    };
    let ExprNode::TensorRead { tensor, indices } = &**read else { return false };
    tensor.dtype.is_float()
        && matches!(&indices.to_vec()[..], [row, at] if row == depth.var.expr() && at == column.var.expr())
}

fn describe(
    (parts, lies): (&Computed, Lies),
    out: &Computed,
    core_op: &Operation,
    out_op: &Operation,
    is_whole: bool,
) -> core::result::Result<Product, String> {
    let (a, b) = factors(parts, lies)?;
    let own: &[IterVar] = if is_whole { &parts.axes } else { &out.axes };
    let extent = |axis: &IterVar| match extent_from_zero(axis)? {
        extent if extent.as_int().is_none() && lies.needs_extents() => Err("an axis has no constant extent".to_owned()),
        extent => Ok(extent),
    };
    // The result may have fewer rows and columns than the product.
    let (last, outer) = own.split_last().expect("it has columns");
    let mut rows = Rows::default();
    for axis in outer {
        rows.0.push((axis.var.clone(), extent_from_zero(axis)?));
    }
    let column = (last.var.clone(), extent(last)?);
    let depth = &parts.reduce_axes[0];
    let few_bits = parts.axes.last().and_then(|column| FewBits::of(&b, column, depth));
    let depth = (depth.var.clone(), extent(depth)?);
    let renamed: VarMap =
        parts.axes.iter().zip(own).map(|(axis, own)| (axis.var.clone(), own.var.expr().clone())).collect();
    let sum = Var::new("sum", core_op.output(0).dtype);
    let value = if is_whole {
        sum.expr().clone()
    } else {
        let body = with_sum(core_op, &sum, &out.body).map_err(|_| "its result cannot be written".to_owned())?;
        if reads(&body).iter().any(|(tensor, _)| tensor.op == *core_op) {
            return Err("the result reads it in several ways".into());
        }
        body
    };
    let (a, b) = (substitute(&a, &renamed), substitute(&b, &renamed));
    Ok(Product { out: out_op.clone(), rows, column, depth, a, b, few_bits, value, sum })
}

/// Returns true if an operand is widened from half precision.
fn is_half(operand: &Expr) -> bool {
    matches!(&**operand, ExprNode::Cast { value, .. } if value.dtype() == F16)
}

/// The shape of a register tile: rows, and vectors of each row.
fn shape(target: &TargetDescription, rows: Option<i64>, row_bytes: i64) -> (i64, i64) {
    match (rows, target.vector_registers) {
        // For one row, which is read once, several panels are read at a time.
        (Some(1), 32..) => (1, 8),
        (Some(1), _) => (1, 4),
        _ => tile(target, rows, Some(row_bytes)),
    }
}

fn operation(product: &Product, target: &TargetDescription) -> Operation {
    let dtype = product.sum.dtype();
    let rows = product.rows.count();
    let mut vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()).min(COLUMNS) };
    if rows == Some(1) && dtype == F32 && is_half(&product.b) {
        // Sixteen halves are widened in several steps, eight in one: 784 x 512 takes 13.7 us with
        // the former and 9.3 us with the latter on a fourth-generation AMD EPYC.
        vectors.lanes = vectors.lanes.min(8);
    }
    let (columns, terms) = product.known_extents();
    let (height, wide) = shape(target, rows, terms * i64::from(dtype.bits()) / 8);
    // Panels contain whole vectors, also after the last column.
    let all = (columns + vectors.lanes - 1) / vectors.lanes;
    let wide = wide.min(all);
    let groups = (all + wide - 1) / wide;
    let last_wide = all - wide * (groups - 1);
    let tiles = product.rows.tiles(height);
    // The cost of a product with one row is that of reading the matrix; others execute several
    // multiply-adds in that time.
    let work = rows.map(|rows| rows.saturating_mul(columns).saturating_mul(terms) / if rows == 1 { 1 } else { 4 });
    let kind = shared_kind(target, work);
    let inputs = Inputs::of([&product.a, &product.b, &product.value]);
    inputs.operation(&format!("{}.panels", product.out.name()), &product.out, |inputs, out| {
        for_each("tile", &tiles * groups, kind, |number, code| {
            let (group, tile) = (number.floor_div(&tiles), number.floor_mod(&tiles));
            let (first, start) = (&tile * height, &group * (wide * vectors.lanes));
            // Each tile prefetches a panel of the next group, which would otherwise cause stalls:
            // weights of a whole model come from the last-level cache.
            let panels = wide * vectors.lanes / COLUMNS;
            let ahead = (panels > 0 && tiles.as_int().is_none_or(|tiles| tiles >= panels)).then(|| {
                let next = (&group + 1) * panels + tile.min(panels - 1);
                next.min((columns + COLUMNS - 1) / COLUMNS - 1) * terms * COLUMNS
            });
            let of_rows = |rows: &RowTile<'_>| {
                let one = |wide: i64| {
                    let mut code = Code::default();
                    let block = Block { product, inputs, vectors, rows, start: &start, ahead: ahead.as_ref() };
                    block.write(wide, out, &mut code);
                    code.finish()
                };
                if last_wide == wide {
                    return one(wide);
                }
                Stmt::if_then(group.less(groups - 1), one(wide), Some(one(last_wide)))
            };
            code.push(product.rows.tile(&first, height, of_rows));
        })
    })
}

/// A tile of the result.
struct Block<'a> {
    product: &'a Product,
    inputs: &'a Inputs,
    vectors: Vectors,
    rows: &'a RowTile<'a>,
    start: &'a Expr,
    /// The first element of a panel that is read later.
    ahead: Option<&'a Expr>,
}

impl Product {
    /// The number of columns, and of terms of a sum. Those of a product in panels or rows are
    /// known.
    pub(crate) fn known_extents(&self) -> (i64, i64) {
        let known = |extent: &Expr| extent.as_int().expect("the extent of a product in panels or rows is known");
        (known(&self.column.1), known(&self.depth.1))
    }

    /// Emits the results of a tile, whose sums are in `block`: rows of `wide` vectors. `row`
    /// returns the values of all other axes for each of `count` rows, and `start` is the first
    /// column. With `is_cut`, columns after the last one are not stored.
    pub(crate) fn store(
        &self,
        (inputs, out): (&Inputs, &Buffer),
        (block, count, wide, lanes): (&Buffer, &Expr, i64, i64),
        row: impl Fn(&Expr) -> VarMap,
        (start, is_cut): (&Expr, bool),
        code: &mut Code,
    ) {
        let (column, columns) = &self.column;
        code.push(serial("row", count, |own, code| {
            let row = row(own);
            code.push(serial("j.outer", wide, |outer, code| {
                let lane = Var::index("j");
                let at = outer * lanes + &lane;
                let j = start + &at;
                let mut values = row.clone();
                values.insert(column.clone(), j.clone());
                let rows = self.rows.0.iter().map(|(var, _)| var);
                let indices: Vec<Expr> = rows.chain([column]).map(|var| substitute(var.expr(), &values)).collect();
                values.insert(self.sum.clone(), Expr::load(block, own * (wide * lanes) + &at));
                let written = inputs.loads(&substitute(&self.value, &values));
                let store = Stmt::store(out.clone(), out.flat_index(&indices), written);
                let store = if is_cut { Stmt::if_then(j.less(columns).likely(), store, None) } else { store };
                code.push(Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store));
            }));
        }));
    }
}

impl Block<'_> {
    fn write(&self, wide: i64, out: &Buffer, code: &mut Code) {
        let Product { depth: (depth, _), a, b, few_bits, .. } = self.product;
        let (columns, terms) = self.product.known_extents();
        let RowTile { height, ref count, .. } = *self.rows;
        let lanes = self.vectors.lanes;
        let across = wide * lanes;
        let block = memory("block", self.vectors.dtype, &[height, across], "local");
        code.alloc(&block);
        let k = Var::index("k");
        let element = |row: i64, k: &Expr| {
            let mut values = self.rows.at(row);
            values.insert(depth.clone(), k.clone());
            self.inputs.loads(&substitute(a, &values))
        };
        let done = |row: i64, at: i64, (sums, place): (&Buffer, Expr)| {
            self.vectors.store(&block, Expr::int(row * across + at * lanes), self.vectors.load(sums, place))
        };
        if let Some(bits) = few_bits {
            let outer = Var::index("part");
            let term = outer.expr() * bits.block + k.expr();
            let load = |at: i64| {
                let from = self.start + at * lanes;
                bits.load(self.inputs, self.vectors, &from, (outer.expr(), k.expr()), terms)
            };
            let loops = [(outer.clone(), Expr::int(terms / bits.block)), (k.clone(), Expr::int(bits.block))];
            self.vectors.tile((height, wide), (&loops, None), |row| element(row, &term), load, done, code);
        } else {
            let loaded = match &**b {
                ExprNode::Cast { value, .. } => value,
                _ => b,
            };
            let ExprNode::TensorRead { tensor, .. } = &**loaded else { unreachable!("panels are read") };
            let panels = self.inputs.buffer(tensor);
            let load = |at: i64| {
                let from = self.start + at * lanes;
                let place = (from.floor_div(COLUMNS) * terms + k.expr()) * COLUMNS + from.floor_mod(COLUMNS);
                Expr::load(&panels, place.ramp(1, lanes as u16)).cast(self.vectors.dtype)
            };
            let ahead = self.ahead.map(|ahead| prefetch_later(&panels, ahead + k.expr() * COLUMNS));
            let loops = [(k.clone(), Expr::int(terms))];
            self.vectors.tile((height, wide), (&loops, ahead), |row| element(row, k.expr()), load, done, code);
        }
        let row = |own: &Expr| self.rows.existing(own);
        let is_cut = columns % across != 0;
        self.product.store((self.inputs, out), (&block, count, wide, lanes), row, (self.start, is_cut), code);
    }
}
