//! Matrix products with extents that are known only when the kernel runs, such as those of
//! attention: `C[.., i, j] = sum over k of A[.., i, k] * B[.., k, j]`, with an elementwise epilogue
//! on `C`. Outer axes that `B` depends on are those of a batch of products.
//!
//! A task multiplies one panel of columns with all rows. It packs the panel first, with zeros or
//! copies after the last column, except where the columns are few and lie in rows. A last panel
//! with few columns has tiles of one vector, and the last rows are tiles of powers of two
//! ([`Rows::tile`]), so that small products cost little more than what they compute.

use super::code::{Code, Inputs, Vectors, for_each, memory, serial};
use super::panels::{Lies, Product, find};
use super::row_tiles::{RowTile, Rows};
use super::tile::tile;
use super::{Outcome, TargetDescription, decline, shared_kind};
use crate::error::Result;
use crate::ir::visit::uses_var;
use crate::ir::{Buffer, Expr, ExprNode, ForKind, Operation, Stmt, Var, VarMap, substitute};
use crate::schedule::{Schedule, StageId};

/// The maximum number of columns in rows that are read without packing.
const FEW_COLUMNS: i64 = 256;

/// The memory layout of the second operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Columns are adjacent.
    Columns,
    /// Terms are adjacent.
    Terms,
    /// Neither.
    Other,
}

/// The tiling of the product.
struct Plan<'a> {
    product: &'a Product,
    /// The axes that the second operand depends on, and those that it does not depend on.
    batch: Rows,
    rows: Rows,
    order: Order,
    /// False if the second operand is read where it lies.
    packs: bool,
    vectors: Vectors,
    /// The rows and vectors of a register tile.
    height: i64,
    wide: i64,
}

/// A panel of columns of one product of the batch.
struct Panel<'a> {
    plan: &'a Plan<'a>,
    inputs: &'a Inputs,
    out: &'a Buffer,
    /// The values of the axes of the batch.
    batch: VarMap,
    /// The first column.
    start: Expr,
}

/// Schedules a product that is an output, or an output whose elements are expressions of a
/// product's elements.
pub(crate) fn apply(schedule: &mut Schedule, id: StageId, target: &TargetDescription) -> Result<Outcome> {
    let product = match find(schedule, id, Lies::Anyhow)? {
        Ok(product) => product,
        Err(reason) => decline!("{reason}"),
    };
    let order = order(&product);
    let dtype = product.sum.dtype();
    let vectors = Vectors { dtype, lanes: target.lanes(dtype.bits()) };
    let uses = |var: &Var| uses_var(&product.b, |used| used == var);
    let (batch, rows) = product.rows.0.iter().cloned().partition(|(var, _)| uses(var));
    let (batch, rows) = (Rows(batch), Rows(rows));
    let (columns, terms) = (product.column.1.as_int(), product.depth.1.as_int());
    let (height, mut wide) =
        tile(target, rows.count(), terms.map(|terms| terms.saturating_mul(i64::from(dtype.bits()) / 8)));
    while wide > 1 && columns.is_some_and(|columns| columns <= vectors.lanes * (wide / 2)) {
        wide /= 2;
    }
    let is_short = columns.is_some_and(|columns| columns % (wide * vectors.lanes) == 0 && columns <= FEW_COLUMNS);
    let packs = order != Order::Columns || !is_short;
    let plan = Plan { product: &product, batch, rows, order, packs, vectors, height, wide };
    schedule.replace(id, &plan.operation(target))?;
    Ok(Outcome::Applied)
}

/// Returns the memory layout of the second operand.
fn order(product: &Product) -> Order {
    let ExprNode::TensorRead { indices, .. } = &*product.b else { return Order::Other };
    let indices = indices.to_vec();
    let Some((last, outer)) = indices.split_last() else { return Order::Other };
    let lies_along = |var: &Var| last == var.expr() && !outer.iter().any(|index| uses_var(index, |used| used == var));
    match () {
        () if lies_along(&product.column.0) => Order::Columns,
        () if lies_along(&product.depth.0) => Order::Terms,
        () => Order::Other,
    }
}

impl Plan<'_> {
    /// The number of columns of a panel.
    fn across(&self) -> i64 {
        self.wide * self.vectors.lanes
    }

    fn operation(&self, target: &TargetDescription) -> Operation {
        let Product { out, a, b, value, column: (_, columns), .. } = self.product;
        let across = self.across();
        let panels = (columns + (across - 1)).floor_div(across);
        let tiles = self.rows.tiles(self.height);
        let kind = shared_kind(target, None);
        Inputs::of([a, b, value]).operation(&format!("{}.ranged", out.name()), out, |inputs, out| {
            let panel = |number: &Expr, code: &mut Code| {
                let own = number.floor_mod(&panels);
                Panel {
                    plan: self,
                    inputs,
                    out,
                    batch: self.batch.at(&number.floor_div(&panels)),
                    start: code.bind("start", own * across),
                }
            };
            let all = self.batch.total() * &panels;
            if !self.packs {
                // Nothing is shared by the tiles of a panel.
                return for_each("tile", all * &tiles, kind, |number, code| {
                    let panel = panel(&number.floor_div(&tiles), code);
                    let first = code.bind("first", number.floor_mod(&tiles) * self.height);
                    code.push(panel.rows(&first, self.wide, None));
                });
            }
            for_each("panel", all, kind, |number, code| {
                let panel = panel(number, code);
                code.push(panel.by_width(columns, |wide| {
                    let mut code = Code::default();
                    let packed = panel.packed(wide, &mut code);
                    code.push(serial("tile", tiles.clone(), |tile, code| {
                        let first = code.bind("first", tile * self.height);
                        code.push(panel.rows(&first, wide, Some(&packed)));
                    }));
                    code.finish()
                }));
            })
        })
    }
}

impl Panel<'_> {
    /// Emits tiles of all vectors of a panel, or of one vector if there are no more columns.
    fn by_width(&self, columns: &Expr, tiles: impl Fn(i64) -> Stmt) -> Stmt {
        let Plan { wide, vectors, .. } = *self.plan;
        let is_narrow = (columns - &self.start).less_equal(vectors.lanes);
        match (wide, is_narrow.as_int()) {
            (1, _) | (_, Some(0)) => tiles(wide),
            _ => Stmt::if_then(is_narrow, tiles(1), Some(tiles(wide))),
        }
    }

    /// Emits the results of some rows and all columns of the panel, from its packed columns.
    fn rows(&self, first: &Expr, wide: i64, packed: Option<&Buffer>) -> Stmt {
        let plan = self.plan;
        plan.rows.tile(first, plan.height, |rows| {
            let mut code = Code::default();
            self.tile(rows, wide, packed, &mut code);
            code.finish()
        })
    }

    /// The second operand at a term and a column.
    fn element(&self, term: &Expr, column: &Expr) -> Expr {
        let Product { b, depth, column: own, .. } = self.plan.product;
        let mut values = self.batch.clone();
        values.insert(depth.0.clone(), term.clone());
        values.insert(own.0.clone(), column.clone());
        self.inputs.loads(&substitute(b, &values))
    }

    /// Emits a register tile.
    fn tile(&self, rows: &RowTile<'_>, wide: i64, packed: Option<&Buffer>, code: &mut Code) {
        let Plan { product, vectors, .. } = self.plan;
        let RowTile { height, ref count, .. } = *rows;
        let Product { depth: (depth, terms), column: (_, columns), a, .. } = product;
        let (lanes, across) = (vectors.lanes, wide * vectors.lanes);
        let block = memory("block", vectors.dtype, &[height, across], "local");
        code.alloc(&block);
        let with_batch = |row: VarMap| {
            self.batch.iter().map(|(var, value)| (var.clone(), value.clone())).chain(row).collect::<VarMap>()
        };
        let k = Var::index("k");
        vectors.tile(
            (height, wide),
            (&[(k.clone(), terms.clone())], None),
            |number| {
                let mut values = with_batch(rows.at(number));
                values.insert(depth.clone(), k.expr().clone());
                self.inputs.loads(&substitute(a, &values))
            },
            |vector| match packed {
                Some(packed) => vectors.load(packed, k.expr() * across + vector * lanes),
                None => vectors.along(&self.element(k.expr(), &(&self.start + vector * lanes))),
            },
            |row, vector, (sums, place)| {
                vectors.store(&block, Expr::int(row * across + vector * lanes), vectors.load(sums, place))
            },
            code,
        );
        let is_cut = columns.as_int().is_none_or(|columns| columns % across != 0);
        let row = |own: &Expr| with_batch(rows.existing(own));
        product.store((self.inputs, self.out), (&block, count, wide, lanes), row, (&self.start, is_cut), code);
    }

    /// Emits the packing of the panel, or of its first vectors: `[term][column]`.
    fn packed(&self, wide: i64, code: &mut Code) -> Buffer {
        let Plan { product, order, vectors, .. } = self.plan;
        let (terms, columns) = (&product.depth.1, &product.column.1);
        let across = wide * vectors.lanes;
        let packed = Buffer::new("packed", vectors.dtype, [terms * across], "global");
        code.alloc(&packed);
        // Columns after the last one are copies of it: their sums are not stored.
        let inside = |column: Expr| column.min(columns - 1);
        match order {
            Order::Columns => {
                let copy = |is_whole: bool| {
                    serial("k", terms.clone(), |k, code| {
                        code.push(serial("vector", wide, |vector, code| {
                            let (lane, from) = (Var::index("j"), vector * vectors.lanes);
                            let column = &self.start + &from + &lane;
                            let place = k * across + &from;
                            let store = Stmt::store(packed.clone(), &place + &lane, self.element(k, &column));
                            if is_whole {
                                code.push(Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store));
                            } else {
                                code.push(vectors.store(&packed, place, vectors.splat(0.0)));
                                let store = Stmt::if_then(column.less(columns).likely(), store, None);
                                code.push(Stmt::for_loop(lane, 0, vectors.lanes, ForKind::Vectorized, store));
                            }
                        }));
                    })
                };
                let is_whole = (&self.start + across).less_equal(columns);
                code.push(Stmt::if_then(is_whole, copy(true), Some(copy(false))));
            }
            Order::Terms => {
                let lanes = vectors.lanes;
                let blocks = terms.floor_div(lanes);
                code.push(serial("vector", wide, |vector, code| {
                    let from = code.bind("from", vector * lanes);
                    code.push(serial("block", blocks.clone(), |block, code| {
                        let term = code.bind("term", block * lanes);
                        let row = |row: i64| vectors.along(&self.element(&term, &inside(&self.start + &from + row)));
                        let rows = (0..lanes).map(|number| code.bind("row", row(number))).collect();
                        for (k, values) in vectors.transposed(rows, code).into_iter().enumerate() {
                            code.push(vectors.store(&packed, (&term + k as i64) * across + &from, values));
                        }
                    }));
                }));
                if terms.as_int().is_none_or(|terms| terms % lanes != 0) {
                    let first = blocks * lanes;
                    code.push(serial("column", across, |column, code| {
                        code.push(serial("k", terms - &first, |k, code| {
                            let value = self.element(&(&first + k), &inside(&self.start + column));
                            code.push(Stmt::store(packed.clone(), (&first + k) * across + column, value));
                        }));
                    }));
                }
            }
            Order::Other => code.push(serial("k", terms.clone(), |k, code| {
                code.push(serial("column", across, |column, code| {
                    let value = self.element(k, &inside(&self.start + column));
                    code.push(Stmt::store(packed.clone(), k * across + column, value));
                }));
            })),
        }
        packed
    }
}
