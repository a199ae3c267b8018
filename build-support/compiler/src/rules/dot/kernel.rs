//! The loops of a product of bytes: a copy of the first operand where it is not read as it is, panels of the second one, and tiles of sums in registers.

use kernpack::DataType;

use super::super::code::{Code, Inputs, for_each, memory, serial};
use super::super::{TargetDescription, shared_kind};
use super::{COLUMNS, DEPTH, Product};
use crate::ir::builtin::{DOT, REINTERPRET};
use crate::ir::{
    Buffer, DataTypeExt, Expr, ExprNode, ForKind, I8, I16, I32, I64, Operation, Stmt, U8, Var, VarMap, substitute,
};

/// How a target adds products of bytes.
struct Shape {
    /// Sums of a vector.
    lanes: i64,
    /// Columns of a vector of sums: each has two sums where bytes are widened.
    unit: i64,
    /// Rows of a tile.
    height: i64,
    /// Vectors of a tile for each row.
    units: i64,
    /// Whether four bytes are multiplied at once; else they are widened.
    bytes: bool,
}

impl Shape {
    fn of(target: &TargetDescription, product: &Product) -> Self {
        let lanes = target.lanes(32).clamp(4, 16);
        let bytes = target.vnni && product.a.dtype() == U8 && product.b.dtype() == I8;
        let rows = product.row_count();
        let (height, units) = match (bytes, target.vector_registers) {
            (true, 32..) if rows == 1 => (1, 4),
            (true, 32..) => (12, 2),
            (true, _) => (6, 2),
            (false, 32..) if lanes == 16 => (10, 2),
            (false, 32..) => (5, 4),
            (false, _) if lanes == 8 => (5, 2),
            (false, _) => (2, 4),
        };
        let tiles = (rows + height - 1) / height;
        Self { lanes, unit: if bytes { lanes } else { lanes / 2 }, height: (rows + tiles - 1) / tiles, units, bytes }
    }

    /// Columns of a tile with so many vectors in a row.
    fn columns(&self, units: i64) -> i64 {
        units * self.unit
    }
}

/// The loops as an operation.
pub(super) fn operation(product: &Product, target: &TargetDescription) -> Operation {
    let shape = Shape::of(target, product);
    let (rows, columns, terms) = (product.row_count(), product.column.1, product.depth.1);
    let matrices: i64 = product.batch.iter().map(|(_, extent)| extent).product();
    // A dozen multiply-adds or more are done in the time of another operation.
    let work = |per: i64| shared_kind(target, Some(matrices.saturating_mul(per)));
    let all = work(rows.saturating_mul(columns).saturating_mul(terms) / if shape.bytes { 32 } else { 8 });
    // Several matrices are shared out whole.
    let (outer, inner) = if matrices > 1 { (all, ForKind::Serial) } else { (ForKind::Serial, all) };
    let copying = if matrices > 1 { ForKind::Serial } else { work(rows.saturating_mul(terms)) };
    product.operation(|inputs, out| {
        for_each("matrix", matrices, outer, |matrix, code| {
            let matrix =
                Matrix { product, shape: &shape, inputs, out, batch: Product::positions(&product.batch, matrix) };
            let a = matrix.first_operand(copying, code);
            let b = matrix.panels(code);
            matrix.tiles(&a, &b, inner, code);
        })
    })
}

/// Where the first operand is read: elements of four products lie beside each other.
struct First {
    buffer: Buffer,
    /// The index of the first element of a row, of the row's number.
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
            values.extend(Product::positions(&self.product.rows, row));
        }
        values.extend(others.iter().map(|(var, value)| ((*var).clone(), (*value).clone())));
        self.inputs.loads(&substitute(expr, &values))
    }

    /// The first operand as the tiles read it: in place, or a copy with zeros behind the last element of each row.
    fn first_operand(&self, kind: ForKind, code: &mut Code) -> First {
        let Product { a, rows, depth: (depth, terms), .. } = self.product;
        let padded = (terms + DEPTH - 1) / DEPTH * DEPTH;
        if let (true, Some(buffer)) = (self.shape.bytes && padded == *terms, self.in_place()) {
            let (a, batch, rows) = (a.clone(), self.batch.clone(), rows.clone());
            let (depth, own) = (depth.clone(), buffer.clone());
            let row = move |row: &Expr| {
                let mut values = batch.clone();
                values.extend(Product::positions(&rows, row));
                values.insert(depth.clone(), Expr::int(0));
                match &*substitute(&a, &values) {
                    ExprNode::TensorRead { indices, .. } => own.flat_index(&indices.to_vec()),
                    _ => unreachable!("it is read in place"),
                }
            };
            return First { buffer, row: Box::new(row) };
        }
        let dtype = if self.shape.bytes { U8 } else { I16 };
        let count = self.product.row_count();
        let copy = memory("rows", dtype, &[count, padded], "global");
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

    /// The buffer of the first operand, if elements of a sum lie beside each other in it.
    fn in_place(&self) -> Option<Buffer> {
        let ExprNode::TensorRead { tensor, indices } = &*self.product.a else { return None };
        let (last, others) = (indices.len().checked_sub(1)?, indices.to_vec());
        let uses = |index: &Expr| crate::ir::visit::uses_var(index, |var| *var == self.product.depth.0);
        let fits = others[last] == *self.product.depth.0.expr() && !others[..last].iter().any(uses);
        fits.then(|| self.inputs.buffer(tensor))
    }

    /// The second operand in panels.
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

    /// All tiles of the result.
    fn tiles(&self, a: &First, b: &Buffer, kind: ForKind, code: &mut Code) {
        let shape = self.shape;
        let (rows, columns) = (self.product.row_count(), self.product.column.1);
        let count = (rows + shape.height - 1) / shape.height;
        let last_height = rows - shape.height * (count - 1);
        // Vectors behind the last column that has any element are not computed; panels have whole ones.
        let vectors = (columns + shape.unit - 1) / shape.unit;
        // Widened sums are put together two by two.
        let vectors = if shape.bytes { vectors } else { vectors + vectors % 2 };
        let units = shape.units.min(vectors);
        let groups = (vectors + units - 1) / units;
        let last_units = vectors - units * (groups - 1);
        code.push(for_each("tile", count * groups, kind, |tile, code| {
            let (group, first) = (tile.floor_div(count), tile.floor_mod(count) * shape.height);
            let tile = |height: i64, units_here: i64| {
                let mut code = Code::default();
                self.tile(a, b, (&first, height), (&(&group * shape.columns(units)), units_here), &mut code);
                code.finish()
            };
            let of_height = |height: i64| {
                if last_units == units {
                    return tile(height, units);
                }
                Stmt::if_then(group.less(groups - 1), tile(height, units), Some(tile(height, last_units)))
            };
            code.push(if last_height == shape.height {
                of_height(shape.height)
            } else {
                Stmt::if_then(first.less(rows - last_height), of_height(shape.height), Some(of_height(last_height)))
            });
        }));
    }

    /// One tile: sums in registers while all of the depth goes by, then what is written of them.
    fn tile(
        &self,
        a: &First,
        b: &Buffer,
        (first, height): (&Expr, i64),
        (start, units): (&Expr, i64),
        code: &mut Code,
    ) {
        let Shape { lanes, unit, bytes, .. } = *self.shape;
        let Product { column: (column, columns), depth: (_, terms), value, sum, .. } = self.product;
        let groups = (terms + DEPTH - 1) / DEPTH;
        let wide = |dtype: DataType, lanes: i64| dtype.with_lanes(lanes as u16);
        let vector = |buffer: &Buffer, index: Expr, count: i64| Expr::load(buffer, index.ramp(1, count as u16));
        let sums = memory("sums", I32, &[height * units * lanes], "local");
        let place = |row: i64, at: i64| Expr::int((row * units + at) * lanes);
        let each = || (0..height).flat_map(|row| (0..units).map(move |at| (row, at)));
        code.alloc(&sums);
        for (row, at) in each() {
            let zero = Expr::constant(I32, 0).broadcast(lanes as u16);
            code.push(Stmt::store(sums.clone(), place(row, at).ramp(1, lanes as u16), zero));
        }
        let bases: Vec<Expr> = (0..height).map(|row| code.bind("row", (a.row)(&(first + row)))).collect();
        code.push(serial("group", groups, |group, code| {
            // Bytes of a vector of the second operand.
            let length = unit * DEPTH;
            let columns_of: Vec<Expr> = (0..units)
                .map(|at| {
                    let column = start + at * unit;
                    let panel = column.floor_div(COLUMNS) * (groups * COLUMNS * DEPTH);
                    let index = panel + group * (COLUMNS * DEPTH) + column.floor_mod(COLUMNS) * DEPTH;
                    let loaded = vector(b, index, length);
                    code.bind("b", if bytes { loaded } else { loaded.cast(I16) })
                })
                .collect();
            for row in 0..height {
                // Four elements, in all groups of the vector.
                let own = vector(&a.buffer, &bases[row as usize] + group * DEPTH, DEPTH);
                let (whole, count) = if bytes { (I32, lanes) } else { (I64, lanes / 2) };
                let word = Expr::builtin(REINTERPRET, whole, [own]).broadcast(count as u16);
                let all = Expr::builtin(REINTERPRET, wide(a.buffer.dtype, length), [word]);
                let all = code.bind("a", all);
                for at in 0..units {
                    let index = || place(row, at).ramp(1, lanes as u16);
                    let args = [Expr::load(&sums, index()), all.clone(), columns_of[at as usize].clone()];
                    code.push(Stmt::store(sums.clone(), index(), Expr::builtin(DOT, wide(I32, lanes), args)));
                }
            }
        }));
        // Sums of columns, row by row.
        let across = units * unit;
        let block = memory("block", I32, &[height, across], "local");
        code.alloc(&block);
        for row in 0..height {
            let load = |at: i64| Expr::load(&sums, place(row, at).ramp(1, lanes as u16));
            let mut store = |index: i64, value: Expr| {
                code.push(Stmt::store(block.clone(), Expr::int(row * across + index).ramp(1, lanes as u16), value));
            };
            if bytes {
                (0..units).for_each(|at| store(at * lanes, load(at)));
                continue;
            }
            for at in (0..units).step_by(2) {
                let half = |odd: i64| {
                    let vectors = [load(at), load(at + 1)].into_iter().collect();
                    let indices: Vec<i64> = (0..lanes).map(|lane| 2 * lane + odd).collect();
                    Expr::from_node(ExprNode::Shuffle { vectors, indices: indices.into() })
                };
                store(at * unit, half(0) + half(1));
            }
        }
        let is_cut = columns % across != 0;
        code.push(serial("row", height, |row, code| {
            let number = first + row;
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
        values.extend(Product::positions(&self.product.rows, row));
        values.insert(self.product.column.0.clone(), column.clone());
        self.product.axes.iter().map(|axis| substitute(axis.expr(), &values)).collect()
    }
}

/// A loop over `0 .. extent` in vectors, all of which are whole.
fn vectors(name: &str, extent: i64, lanes: i64, body: impl FnOnce(&Expr) -> Stmt) -> Stmt {
    // As wide as the extent allows.
    let lanes = (1..=lanes).rev().find(|lanes| extent % lanes == 0 && (lanes & (lanes - 1)) == 0).unwrap_or(1);
    let lane = Var::index(name);
    serial(&format!("{name}.outer"), extent / lanes, |outer, code| {
        let inner = body(&(outer * lanes + &lane));
        code.push(Stmt::for_loop(lane.clone(), 0, lanes, ForKind::Vectorized, inner));
    })
}
