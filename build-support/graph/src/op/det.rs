//! Determinants.

use kernpack_compiler::ir::{DataTypeExt, Expr, F64, Stmt, Tensor};
use kernpack_compiler::te::{self, extern_op};

use super::call::{extents, tensor};
use super::statements::{Variable, count_of, each, element, memory, put, when};
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator { name: "Det", pattern: Pattern::Opaque, make: det }];

/// Elimination in double precision with the largest element of each column as the pivot.
fn det(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (outer, matrix) = x.shape.split_at(x.rank().saturating_sub(2));
    require!(x.rank() >= 2 && matrix[0] == matrix[1], "expected square matrices, got {:?}", x.shape);
    require!(x.dtype.is_float(), "determinants of {} are not supported: cast it to float32", x.dtype);
    let n = matrix[0];
    if n == 0 || x.shape.contains(&0) {
        return Ok(vec![tensor(outer, |_| te::constant(1.0, x.dtype))]);
    }
    let op = extern_op("det", [&x.tensor]).output(extents(outer), x.dtype);
    Ok(op.body(|inputs, outputs| {
        let (rows, product) = (memory("rows", F64, n * n), Variable::new("product", F64));
        let (pivot, factor) = (Variable::index("pivot"), Variable::new("factor", F64));
        let at = |row: &Expr, column: &Expr| element(&rows, row * n + column);
        let zero = || te::constant(0.0, F64);
        let column = |k: &Expr| {
            let search = each("row", n, |row| {
                let larger = te::abs(at(row, k)).greater(te::abs(at(&pivot.get(), k)));
                when(row.greater(k).and(larger), pivot.set(row.clone()))
            });
            let swap = each("swapped", n, |j| {
                Stmt::seq([
                    factor.set(at(k, j)),
                    put(&rows, k * n + j, at(&pivot.get(), j)),
                    put(&rows, pivot.get() * n + j, factor.get()),
                ])
            });
            let swap = when(pivot.get().differs(k), Stmt::seq([swap, product.set(zero() - product.get())]));
            let eliminate = each("below", n, |row| {
                let subtract =
                    each("j", n, |j| when(j.greater(k), put(&rows, row * n + j, at(row, j) - factor.get() * at(k, j))));
                when(row.greater(k), Stmt::seq([factor.set(at(row, k) / at(k, k)), subtract]))
            });
            // After a column of zeros, the product stays 0.
            let eliminate = when(at(k, k).differs(zero()), eliminate);
            Stmt::seq([pivot.set(k.clone()), search, swap, product.set(product.get() * at(k, k)), eliminate])
        };
        let body = each("matrix", count_of(outer), |number| {
            let load = each("loaded", n * n, |index| {
                put(&rows, index.clone(), element(&inputs[0], number * (n * n) + index).cast(F64))
            });
            let result = put(&outputs[0], number.clone(), product.get().cast(x.dtype));
            Stmt::seq([load, product.set(te::constant(1.0, F64)), each("column", n, column), result])
        });
        Stmt::seq([Stmt::alloc(rows.clone()), product.begin(zero()), pivot.begin(0), factor.begin(zero()), body])
    }))
}
