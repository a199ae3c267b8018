//! The loops of a product of bytes: a copy of the first operand unless it can be read in place,
//! panels of the second one, and tiles of sums in registers.

use super::super::code::{Code, Inputs, for_each, memory, serial};
use super::super::row_tiles::RowTile;
use super::super::{TargetDescription, shared_kind};
use super::{COLUMNS, DEPTH, Product};
use crate::ir::builtin::{DOT, REINTERPRET};
use crate::ir::{
    Buffer, DataTypeExt, Expr, ExprNode, ForKind, I8, I16, I32, I64, Operation, Stmt, U8, Var, VarMap, substitute,
};

/// The way in which a target adds products of bytes.
pub(super) struct Shape {
    /// The number of sums in a vector.
    pub(super) lanes: i64,
    /// The number of columns in a vector of sums: each has two sums where bytes are widened.
    pub(super) unit: i64,
    /// The rows of a tile.
    pub(super) height: i64,
    /// The vectors of a tile for each row.
    pub(super) units: i64,
    /// True if four bytes are multiplied at once; otherwise they are widened.
    pub(super) bytes: bool,
}

impl Shape {
    /// Returns the shape for a first factor with this number of rows, if it is known. `bytes`: one
    /// factor is unsigned bytes, the other one signed bytes.
    pub(super) fn of(target: &TargetDescription, rows: Option<i64>, bytes: bool) -> Self {
        let lanes = target.lanes(32).clamp(4, 16);
        let bytes = target.vnni && bytes;
        let (height, units) = match (bytes, target.vector_registers) {
            (true, 32..) if rows == Some(1) => (1, 4),
            (true, 32..) => (12, 2),
            (true, _) => (6, 2),
            (false, 32..) if lanes == 16 => (10, 2),
            (false, 32..) => (5, 4),
            (false, _) if lanes == 8 => (5, 2),
            (false, _) => (2, 4),
        };
        // Rows are divided evenly.
        let even = |rows: i64| (rows + (rows + height - 1) / height - 1) / ((rows + height - 1) / height);
        let height = rows.filter(|rows| *rows > 0).map_or(height, even);
        Self { lanes, unit: if bytes { lanes } else { lanes / 2 }, height, units, bytes }
    }

    /// The number of columns of a tile with this number of vectors in a row.
    pub(super) fn columns(&self, units: i64) -> i64 {
        units * self.unit
    }
}

/// Creates an operation from the loops.
pub(super) fn operation(product: &Product, target: &TargetDescription) -> Operation {
    let (rows, columns, terms) = (product.rows.count(), product.column.1, product.depth.1);
    let shape = Shape::of(target, rows, product.a.dtype() == U8 && product.b.dtype() == I8);
    let matrices = product.batch.count();
    // A dozen or more multiply-adds take as long as one other operation.
    let work = |per_row: i64, by: i64| {
        let all = matrices.zip(rows).map(|(matrices, rows)| matrices.saturating_mul(rows.saturating_mul(per_row) / by));
        shared_kind(target, all)
    };
    let all = work(columns.saturating_mul(terms), if shape.bytes { 32 } else { 8 });
    // Several matrices are distributed as wholes.
    let (outer, inner) = if matrices == Some(1) { (ForKind::Serial, all) } else { (all, ForKind::Serial) };
    let copying = if matrices == Some(1) { work(terms, 1) } else { ForKind::Serial };
    product.operation(|inputs, out| {
        for_each("matrix", product.batch.total(), outer, |matrix, code| {
            let matrix = Matrix { product, shape: &shape, inputs, out, batch: product.batch.at(matrix) };
            let a = matrix.first_operand(copying, code);
            let b = matrix.panels(code);
            matrix.tiles(&a, &b, inner, code);
        })
    })
}

/// The location of the first operand: elements of four products are adjacent.
struct First {
    buffer: Buffer,
    /// The index of the first element of a row, by the row's number.
    row: Box<dyn Fn(&Expr) -> Expr>,
}

/// One of the matrices of a batch.
struct Matrix<'a> {
    product: &'a Product,
    shape: &'a Shape,
    inputs: &'a Inputs,
    out: &'a Buffer,
    batch: VarMap,
}

impl Matrix<'_> {
    /// An expression at a row, a column and an element of the sum.
    fn at(&self, expr: &Expr, row: Option<&Expr>, others: &[(&Var, &Expr)]) -> Expr {
        let mut values = self.batch.clone();
        if let Some(row) = row {
            values.extend(self.product.rows.at(row));
        }
        values.extend(others.iter().map(|(var, value)| ((*var).clone(), (*value).clone())));
        self.inputs.loads(&substitute(expr, &values))
    }

    /// Provides the first operand to the tiles: in place, or as a copy with zeros after the last
    /// element of each row.
    fn first_operand(&self, kind: ForKind, code: &mut Code) -> First {
        let Product { a, rows, depth: (depth, terms), .. } = self.product;
        let padded = (terms + DEPTH - 1) / DEPTH * DEPTH;
        if let (true, Some(buffer)) = (self.shape.bytes && padded == *terms, self.in_place()) {
            let (a, batch, rows) = (a.clone(), self.batch.clone(), rows.clone());
            let (depth, own) = (depth.clone(), buffer.clone());
            let row = move |row: &Expr| {
                let mut values = batch.clone();
                values.extend(rows.at(row));
                values.insert(depth.clone(), Expr::int(0));
                match &*substitute(&a, &values) {
                    ExprNode::TensorRead { indices, .. } => own.flat_index(&indices.to_vec()),
                    _ => unreachable!("it is read in place"),
                }
            };
            return First { buffer, row: Box::new(row) };
        }
        let dtype = if self.shape.bytes { U8 } else { I16 };
        let count = rows.total();
        let copy = Buffer::new("rows", dtype, [&count * padded], "global");
        code.alloc(&copy);
        let lanes = self.shape.lanes * i64::from(32 / dtype.bits());
        let target = copy.clone();
        code.push(for_each("row", count, kind, |row, code| {
            code.push(vectors("k", padded, lanes, |k| {
                let value = self.at(a, Some(row), &[(depth, k)]).cast(dtype);
                let value = if padded == *terms {
                    value
                } else {
                    Expr::if_then_else(k.less(*terms), value, Expr::constant(dtype, 0))
                };
                Stmt::store(target.clone(), row * padded + k, value)
            }));
        }));
        First { buffer: copy, row: Box::new(move |row| row * padded) }
    }

    /// The buffer of the first operand, if the elements of a sum are adjacent in it.
    fn in_place(&self) -> Option<Buffer> {
        let ExprNode::TensorRead { tensor, indices } = &*self.product.a else { return None };
        let (last, others) = (indices.len().checked_sub(1)?, indices.to_vec());
        let uses = |index: &Expr| crate::ir::visit::uses_var(index, |var| *var == self.product.depth.0);
        let fits = others[last] == *self.product.depth.0.expr() && !others[..last].iter().any(uses);
        fits.then(|| self.inputs.buffer(tensor))
    }

    /// Packs the second operand into panels.
    fn panels(&self, code: &mut Code) -> Buffer {
        let Product { b, column: (column, columns), depth: (depth, terms), .. } = self.product;
        if let Some(tensor) = &self.product.panels {
            return self.inputs.buffer(tensor);
        }
        let (count, groups) = ((columns + COLUMNS - 1) / COLUMNS, (terms + DEPTH - 1) / DEPTH);
        let dtype = b.dtype();
        let panels = memory("panels", dtype, &[count, groups, COLUMNS, DEPTH], "global");
        code.alloc(&panels);
        let target = panels.clone();
        code.push(serial("panel", count, |panel, code| {
            code.push(serial("group", groups, |group, code| {
                code.push(serial("column", COLUMNS, |lane, code| {
                    code.push(serial("k", DEPTH, |part, code| {
                        let (j, k) = (panel * COLUMNS + lane, group * DEPTH + part);
                        let mut value = self.at(b, None, &[(column, &j), (depth, &k)]);
                        let zero = || Expr::constant(dtype, 0);
                        if terms % DEPTH != 0 {
                            value = Expr::if_then_else(k.less(*terms), value, zero());
                        }
                        if columns % COLUMNS != 0 {
                            value = Expr::if_then_else(j.less(*columns), value, zero());
                        }
                        let index = ((panel * groups + group) * COLUMNS + lane) * DEPTH + part;
                        code.push(Stmt::store(target.clone(), index, value));
                    }));
                }));
            }));
        }));
        panels
    }

    /// Emits all tiles of the result.
    fn tiles(&self, a: &First, b: &Buffer, kind: ForKind, code: &mut Code) {
        let shape = self.shape;
        let Product { rows, column: (_, columns), .. } = self.product;
        let count = rows.tiles(shape.height);
        // Vectors without any existing column are not computed; panels consist of whole vectors.
        let vectors = (columns + shape.unit - 1) / shape.unit;
        // Widened sums are combined in pairs.
        let vectors = if shape.bytes { vectors } else { vectors + vectors % 2 };
        let units = shape.units.min(vectors);
        let groups = (vectors + units - 1) / units;
        let last_units = vectors - units * (groups - 1);
        code.push(for_each("tile", &count * groups, kind, |tile, code| {
            let (group, first) = (tile.floor_div(&count), tile.floor_mod(&count) * shape.height);
            let start = &group * shape.columns(units);
            let of_rows = |rows: &RowTile<'_>| {
                let tile = |units: i64| {
                    let mut code = Code::default();
                    self.tile(a, b, rows, (&start, units), &mut code);
                    code.finish()
                };
                if last_units == units {
                    return tile(units);
                }
                Stmt::if_then(group.less(groups - 1), tile(units), Some(tile(last_units)))
            };
            code.push(rows.tile(&first, shape.height, of_rows));
        }));
    }

    /// Emits one tile: sums in registers over the whole depth, then the written values.
    fn tile(&self, a: &First, b: &Buffer, rows: &RowTile<'_>, (start, units): (&Expr, i64), code: &mut Code) {
        let height = rows.height;
        let Shape { lanes, unit, .. } = *self.shape;
        let Product { column: (column, columns), depth: (_, terms), value, sum, .. } = self.product;
        let groups = (terms + DEPTH - 1) / DEPTH;
        let tile = Tile::new(self.shape, height, units, code);
        let bases: Vec<Expr> = (0..height).map(|row| code.bind("row", (a.row)(&rows.number(row)))).collect();
        code.push(serial("group", groups, |group, code| {
            let columns_of = |at: i64| {
                let column = start + at * unit;
                let panel = column.floor_div(COLUMNS) * (groups * COLUMNS * DEPTH);
                (b.clone(), panel + group * (COLUMNS * DEPTH) + column.floor_mod(COLUMNS) * DEPTH)
            };
            tile.add(columns_of, |row| (a.buffer.clone(), &bases[row as usize] + group * DEPTH), code);
        }));
        // The sums of columns, row by row.
        let across = self.shape.columns(units);
        let block = memory("block", I32, &[height, across], "local");
        code.alloc(&block);
        for (row, at, sums) in tile.sums() {
            let index = Expr::int(row * across + at).ramp(1, lanes as u16);
            code.push(Stmt::store(block.clone(), index, sums));
        }
        let is_cut = columns % across != 0;
        code.push(serial("row", &rows.count, |row, code| {
            let number = &rows.first + row;
            code.push(vectors("j", across, lanes, |index| {
                let j = start + index;
                let element = Expr::load(&block, row * across + index);
                let written = self.at(value, Some(&number), &[(column, &j), (sum, &element)]);
                let indices: Vec<Expr> = self.indices(&number, &j);
                let store = Stmt::store(self.out.clone(), self.out.flat_index(&indices), written);
                if is_cut { Stmt::if_then(j.less(*columns).likely(), store, None) } else { store }
            }));
        }));
    }

    /// The indices of an element of the result.
    fn indices(&self, row: &Expr, column: &Expr) -> Vec<Expr> {
        let mut values = self.batch.clone();
        values.extend(self.product.rows.at(row));
        values.insert(self.product.column.0.clone(), column.clone());
        self.product.axes.iter().map(|axis| substitute(axis.expr(), &values)).collect()
    }
}

/// The rows and vectors of sums that stay in registers.
pub(super) struct Tile<'a> {
    shape: &'a Shape,
    height: i64,
    units: i64,
    memory: Buffer,
}

impl<'a> Tile<'a> {
    /// Creates sums that are zero.
    pub(super) fn new(shape: &'a Shape, height: i64, units: i64, code: &mut Code) -> Self {
        let memory = memory("sums", I32, &[height * units * shape.lanes], "local");
        code.alloc(&memory);
        let tile = Self { shape, height, units, memory };
        for row in 0..height {
            for at in 0..units {
                let zero = Expr::constant(I32, 0).broadcast(shape.lanes as u16);
                code.push(Stmt::store(tile.memory.clone(), tile.place(row, at), zero));
            }
        }
        tile
    }

    fn place(&self, row: i64, at: i64) -> Expr {
        Expr::int((row * self.units + at) * self.shape.lanes).ramp(1, self.shape.lanes as u16)
    }

    /// Adds products of four bytes to each sum. The closures return the positions of a vector of
    /// columns, and of a row.
    pub(super) fn add(
        &self,
        columns: impl Fn(i64) -> (Buffer, Expr),
        row: impl Fn(i64) -> (Buffer, Expr),
        code: &mut Code,
    ) {
        let Shape { lanes, bytes, .. } = *self.shape;
        let length = self.shape.unit * DEPTH;
        let load = |(buffer, index): (Buffer, Expr), count: i64| {
            let loaded = Expr::load(&buffer, index.ramp(1, count as u16));
            if bytes { loaded } else { loaded.cast(I16) }
        };
        let columns: Vec<Expr> = (0..self.units).map(|at| code.bind("b", load(columns(at), length))).collect();
        for own in 0..self.height {
            // Four elements, in all groups of the vector.
            let four = load(row(own), DEPTH);
            let element = four.dtype().element();
            let (whole, count) = if bytes { (I32, lanes) } else { (I64, lanes / 2) };
            let word = Expr::builtin(REINTERPRET, whole, [four]).broadcast(count as u16);
            let all = code.bind("a", Expr::builtin(REINTERPRET, element.with_lanes(length as u16), [word]));
            for at in 0..self.units {
                let column = columns[at as usize].clone();
                // Instructions take the unsigned bytes first.
                let [x, y] = if element == I8 { [column, all.clone()] } else { [all.clone(), column] };
                let sums = Expr::load(&self.memory, self.place(own, at));
                let sums = Expr::builtin(DOT, I32.with_lanes(lanes as u16), [sums, x, y]);
                code.push(Stmt::store(self.memory.clone(), self.place(own, at), sums));
            }
        }
    }

    /// The sums as vectors of columns: row, first column, vector.
    pub(super) fn sums(&self) -> Vec<(i64, i64, Expr)> {
        let Shape { lanes, unit, bytes, .. } = *self.shape;
        let load = |row: i64, at: i64| Expr::load(&self.memory, self.place(row, at));
        let mut all = Vec::new();
        for row in 0..self.height {
            if bytes {
                all.extend((0..self.units).map(|at| (row, at * lanes, load(row, at))));
                continue;
            }
            for at in (0..self.units).step_by(2) {
                let half = |odd: i64| {
                    let vectors = [load(row, at), load(row, at + 1)].into_iter().collect();
                    let indices: Vec<i64> = (0..lanes).map(|lane| 2 * lane + odd).collect();
                    Expr::from_node(ExprNode::Shuffle { vectors, indices: indices.into() })
                };
                all.push((row, at * unit, half(0) + half(1)));
            }
        }
        all
    }
}

/// Emits a loop over `0 .. extent` in whole vectors.
fn vectors(name: &str, extent: i64, lanes: i64, body: impl FnOnce(&Expr) -> Stmt) -> Stmt {
    // The vectors are as wide as the extent allows.
    let lanes = (1..=lanes).rev().find(|lanes| extent % lanes == 0 && (lanes & (lanes - 1)) == 0).unwrap_or(1);
    let lane = Var::index(name);
    serial(&format!("{name}.outer"), extent / lanes, |outer, code| {
        let inner = body(&(outer * lanes + &lane));
        code.push(Stmt::for_loop(lane.clone(), 0, lanes, ForKind::Vectorized, inner));
    })
}
