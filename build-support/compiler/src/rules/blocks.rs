//! Matrix products whose second operand is row-major, with constant sizes. The operand is packed
//! into panels as wide as a register tile while the first rows are multiplied, so that the packing
//! needs no separate pass. Panels that fit into half of the L2 cache stay there while the other
//! rows are processed.

use super::code::{Code, Inputs, Vectors, for_each, memory, serial};
use super::panels::{Lies, Product, find};
use super::tile::tile;
use super::{Outcome, TargetDescription, decline, shared_kind};
use crate::error::Result;
use crate::ir::{Buffer, Expr, ExprNode, ForKind, Stmt, Var, substitute};
use crate::schedule::{Schedule, StageId};

/// The number of rows up to which one panel is processed at a time: with more rows, several panels
/// are used in turn.
const FEW_ROWS: i64 = 256;

/// The tiling of the product.
struct Plan<'a> {
    product: &'a Product,
    inputs: &'a Inputs,
    out: &'a Buffer,
    vectors: Vectors,
    /// The rows and vectors of a register tile.
    height: i64,
    wide: i64,
    /// The number of panels that stay in the L2 cache together.
    group: i64,
    /// The row stride of the second operand, in elements.
    pitch: i64,
}

/// Schedules a product that is an output, or an output whose elements are expressions of a
/// product's elements.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let product = match find(schedule, id, Lies::InRows)? {
        Ok(product) => product,
        Err(reason) => decline!("{reason}"),
    };
    let dtype = product.sum.dtype();
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let Some(rows) = product.rows.count() else { decline!("an axis has no constant extent") };
    let (columns, terms) = product.known_extents();
    let (height, wide) = tile(target, Some(rows), Some(terms * i64::from(dtype.bits()) / 8));
    let across = wide * vectors.lanes;
    if columns % across != 0 || rows < 2 * height {
        decline!("it has no {across} columns or few rows");
    }
    let ExprNode::TensorRead { tensor, .. } = &*product.b else { decline!("its second operand is cast") };
    let (tensor, panels) = (tensor.clone(), columns / across);
    let Some(pitch) = tensor.shape.get(1).and_then(|extent| extent.as_int()) else {
        decline!("the rows of its second operand have no constant length");
    };
    let bytes = terms * across * i64::from(dtype.bits()) / 8;
    let most = if rows <= FEW_ROWS { 1 } else { (target.l2_bytes / 2 / bytes.max(1)).clamp(1, panels) };
    // The groups have the same size.
    let group = (1..=most).rev().find(|group| panels % group == 0).unwrap_or(1);
    let kind = shared_kind(target, Some(rows.saturating_mul(columns).saturating_mul(terms) / 4));
    let inputs = Inputs::of([&product.a, &product.b, &product.value]);
    let name = format!("{}.blocks", product.out.name());
    let operation = inputs.operation(&name, &product.out, |inputs, out| {
        let plan = Plan { product: &product, inputs, out, vectors, height, wide, group, pitch };
        for_each("group", panels / group, kind, |at, code| plan.group(&inputs.buffer(&tensor), at, rows, code))
    });
    schedule.replace(id, &operation)?;
    Ok(Outcome::Applied)
}

impl Plan<'_> {
    /// Emits some panels and all rows.
    fn group(&self, b: &Buffer, at: &Expr, rows: i64, code: &mut Code) {
        let Self { vectors, height, wide, group, .. } = *self;
        let across = wide * vectors.lanes;
        let panel = self.product.known_extents().1 * across;
        let packed = memory("packed", vectors.dtype, &[group * panel], "global");
        code.alloc(&packed);
        let start = code.bind("start", at * (group * across));
        let tiles = rows / height;
        let over = |first: &Expr, height: i64, copies: bool, code: &mut Code| {
            code.push(serial("panel", group, |own, code| {
                let column = code.bind("column", &start + own * across);
                let base = code.bind("base", own * panel);
                self.tile((first, height), &column, (&packed, &base), copies.then_some(b), code);
            }));
        };
        over(&Expr::int(0), height, true, code);
        code.push(serial("tile", tiles - 1, |at, code| {
            let first = code.bind("first", (at + 1) * height);
            over(&first, height, false, code);
        }));
        if rows % height > 0 {
            over(&Expr::int(tiles * height), rows % height, false, code);
        }
    }

    /// Emits a register tile. With `source`, its panel is packed from there.
    fn tile(
        &self,
        (first, height): (&Expr, i64),
        column: &Expr,
        (packed, base): (&Buffer, &Expr),
        source: Option<&Buffer>,
        code: &mut Code,
    ) {
        let Self { vectors, wide, pitch, .. } = *self;
        let Product { depth: (depth, terms), a, value, sum, rows, column: (column_axis, _), .. } = self.product;
        let lanes = vectors.lanes;
        let across = wide * lanes;
        let k = Var::index("k");
        let place = |vector: i64| base + k.expr() * across + vector * lanes;
        let mut each = Code::default();
        if let Some(source) = source {
            for vector in 0..wide {
                let from = k.expr() * pitch + column + vector * lanes;
                each.push(vectors.store(packed, place(vector), vectors.load(source, from)));
            }
        }
        vectors.tile(
            (height, wide),
            (&[(k.clone(), terms.clone())], Some(each.finish())),
            |row| {
                let mut values = rows.at(&(first + row));
                values.insert(depth.clone(), k.expr().clone());
                self.inputs.loads(&substitute(a, &values))
            },
            |vector| vectors.load(packed, place(vector)),
            |row, vector, (sums, at)| {
                let lane = Var::index("j");
                let j = column + vector * lanes + &lane;
                let mut values = rows.at(&(first + row));
                values.insert(column_axis.clone(), j);
                let axes = rows.0.iter().map(|(var, _)| var).chain([column_axis]);
                let indices: Vec<Expr> = axes.map(|var| substitute(var.expr(), &values)).collect();
                let index = self.out.flat_index(&indices);
                values.insert(sum.clone(), Expr::load(sums, at + &lane));
                let store = Stmt::store(self.out.clone(), index, self.inputs.loads(&substitute(value, &values)));
                Stmt::for_loop(lane, 0, lanes, ForKind::Vectorized, store)
            },
            code,
        );
    }
}
