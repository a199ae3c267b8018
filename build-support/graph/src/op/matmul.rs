//! Matrix products.

use kernpack_compiler::ir::{BF16, DataTypeExt, Expr, F16, F32, I32, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, broadcast, tensor};
use super::{Call, Operator, Pattern, bounds};
use crate::error::{Result, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "MatMul", pattern: Pattern::Heavy, make: matmul },
    Operator { name: "Gemm", pattern: Pattern::Heavy, make: gemm },
    Operator { name: "MatMulInteger", pattern: Pattern::Heavy, make: matmul_integer },
];

/// Returns the product of two tensors by the rules of NumPy. The closures return an element of
/// each.
pub(super) fn product(
    a: &Operand,
    b: &Operand,
    left: impl Fn(&[Expr]) -> Expr,
    right: impl Fn(&[Expr]) -> Expr,
) -> Result<Tensor> {
    require!(a.rank() > 0 && b.rank() > 0, "a factor is a scalar");
    let (a_batch, a_matrix) = a.shape.split_at(a.rank().saturating_sub(2));
    let (b_batch, b_matrix) = b.shape.split_at(b.rank().saturating_sub(2));
    let (depth, other) = (a_matrix[a_matrix.len() - 1], b_matrix[0]);
    require!(depth == other, "{:?} and {:?} cannot be multiplied: {depth} columns, {other} rows", a.shape, b.shape);
    let batch = broadcast(&[a_batch, b_batch])?;
    let (rows, columns) = (a_matrix.len() == 2, b_matrix.len() == 2);
    let mut shape = batch.clone();
    shape.extend(rows.then(|| a_matrix[0]));
    shape.extend(columns.then(|| b_matrix[1]));
    if depth == 0 || shape.contains(&0) {
        let dtype = left(&vec![Expr::int(0); a.rank()]).dtype();
        return Ok(tensor(&shape, |_| te::constant(0.0, dtype)));
    }
    let k = reduce_axis(0, depth, "k");
    Ok(tensor(&shape, |position| {
        let (outer, matrix) = position.split_at(batch.len());
        let of = |extents: &[i64]| -> Vec<Expr> {
            let skipped = outer.len() - extents.len();
            let pairs = extents.iter().zip(&batch[skipped..]).zip(&outer[skipped..]);
            // If the result has one matrix as well, its axis is kept: products are recognized by
            // their axes.
            pairs.map(|((extent, all), index)| if extent == all { index.clone() } else { Expr::int(0) }).collect()
        };
        let (mut at_a, mut at_b) = (of(a_batch), of(b_batch));
        if rows {
            at_a.push(matrix[0].clone());
        }
        at_a.push(k.expr());
        at_b.push(k.expr());
        if columns {
            at_b.push(matrix[matrix.len() - 1].clone());
        }
        te::sum(left(&at_a) * right(&at_b), &k)
    }))
}

/// The attribute of a product whose second factor is packed in panels,
/// `[column / 16][row][column % 16]`: its number of columns.
pub(crate) const PANELS: &str = "columns of panels";
/// The number of columns of a panel.
pub(crate) const WIDTH: i64 = 16;

/// Computes a product with a matrix in panels.
fn panel_product(a: &Operand, b: &Operand, columns: i64) -> Result<Tensor> {
    let (rank, depth) = (a.rank(), a.shape.last().copied().unwrap_or(0));
    let fits = rank >= 2 && b.shape == [(columns + WIDTH - 1) / WIDTH, depth, WIDTH] && !a.shape.contains(&0);
    require!(fits, "{:?} and panels {:?} do not fit", a.shape, b.shape);
    let mut shape = a.shape.clone();
    shape[rank - 1] = columns;
    let k = reduce_axis(0, depth, "k");
    Ok(tensor(&shape, |position| {
        let (column, mut at) = (&position[rank - 1], position.to_vec());
        at[rank - 1] = k.expr();
        let place = [column.floor_div(WIDTH), k.expr(), column.floor_mod(WIDTH)];
        te::sum(a.tensor.at(&at) * b.tensor.at(&place).cast(a.dtype), &k)
    }))
}

fn matmul(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if let columns @ 1.. = bounds::size(call.attrs, PANELS, 0)? {
        return Ok(vec![panel_product(a, b, columns)?]);
    }
    require!(
        a.dtype == b.dtype || is_narrow_weight(a, b),
        "the factors have different types: {} and {}",
        a.dtype,
        b.dtype
    );
    if a.dtype.is_float() && a.dtype.bits() < 32 {
        let wide = F32;
        let exact = product(a, b, |at| a.at(at).cast(wide), |at| b.at(at).cast(wide))?;
        let shape: Vec<i64> = exact.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
        return Ok(vec![tensor(&shape, |position| exact.at(position).cast(a.dtype))]);
    }
    Ok(vec![product(a, b, |at| a.at(at), |at| b.at(at).cast(a.dtype))?])
}

/// Returns true if the second factor has known numbers in half precision or bfloat16, which are
/// widened to the type of the first one.
fn is_narrow_weight(a: &Operand, b: &Operand) -> bool {
    a.dtype == F32 && [F16, BF16].contains(&b.dtype) && b.value.is_some()
}

fn gemm(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let (turns_a, turns_b) = (call.attrs.flag("transA", false)?, call.attrs.flag("transB", false)?);
    let in_panels = bounds::size(call.attrs, PANELS, 0)?;
    let expected = if in_panels > 0 { 3 } else { 2 };
    require!(a.rank() == 2 && b.rank() == expected, "expected matrices, got {:?} and {:?}", a.shape, b.shape);
    let pair = |shape: &[i64], turns: bool| if turns { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
    let (m, depth) = pair(&a.shape, turns_a);
    let (other, n) = if in_panels > 0 { (depth, in_panels) } else { pair(&b.shape, turns_b) };
    require!(depth == other, "{m} x {depth} and {other} x {n} cannot be multiplied");
    let at = |operand: &Operand, turns: bool, row: Expr, column: Expr| {
        operand.at(&if turns { [column, row] } else { [row, column] })
    };
    let (alpha, beta) = (call.attrs.float("alpha", 1.0)?, call.attrs.float("beta", 1.0)?);
    let c = match call.optional(2) {
        Some(c) => {
            require!(broadcast(&[&c.shape, &[m, n]])? == [m, n], "{:?} is not broadcast to {m} x {n}", c.shape);
            Some(c)
        }
        None => None,
    };
    let k = reduce_axis(0, depth.max(1), "k");
    let sum = if in_panels > 0 {
        panel_product(a, b, n)?
    } else if depth == 0 {
        tensor(&[m, n], |_| te::constant(0.0, a.dtype))
    } else {
        tensor(&[m, n], |p| {
            let right = at(b, turns_b, k.expr(), p[1].clone());
            let right = if is_narrow_weight(a, b) { right.cast(a.dtype) } else { right };
            te::sum(at(a, turns_a, p[0].clone(), k.expr()) * right, &k)
        })
    };
    if alpha == 1.0 && (c.is_none() || beta == 0.0) {
        return Ok(vec![sum]);
    }
    let by = |value: Expr, factor: f64| {
        if factor == 1.0 { value } else { &value * te::constant(factor, a.dtype) }
    };
    Ok(vec![tensor(&[m, n], |position| {
        let value = by(sum.at(position), alpha);
        match c {
            Some(c) if beta != 0.0 => value + by(c.broadcast_at(position), beta),
            _ => value,
        }
    })])
}

fn matmul_integer(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let zero = |index: usize, place: Option<&Expr>| {
        let zero = call.optional(index)?;
        let value = match (zero.rank(), place) {
            (0, _) => zero.at(&[]),
            (_, Some(place)) if zero.rank() == 1 && zero.shape != [1] => zero.at(core::slice::from_ref(place)),
            _ => zero.at(&vec![Expr::int(0); zero.rank()]),
        };
        Some(value.cast(I32))
    };
    let sums = integer_product(a, b, |row| zero(2, row), |column| zero(3, column))?;
    Ok(vec![sums])
}

/// Computes the product of bytes as `int32`. The closures return the zero points, by row of the
/// first factor and by column of the second one. The summed products are those of the bytes
/// themselves, which the compiler has instructions for. The contribution of zero points follows
/// from the sums of rows and columns.
pub(super) fn integer_product(
    a: &Operand,
    b: &Operand,
    a_zero: impl Fn(Option<&Expr>) -> Option<Expr>,
    b_zero: impl Fn(Option<&Expr>) -> Option<Expr>,
) -> Result<Tensor> {
    let taken_off = |value: Expr, zero: Option<Expr>| match zero {
        Some(zero) => value - zero,
        None => value,
    };
    if a.rank() < 2 || b.rank() < 2 || a.shape.contains(&0) || b.shape.contains(&0) {
        let row = |at: &[Expr]| at.len().checked_sub(2).map(|row| at[row].clone());
        let left = |at: &[Expr]| taken_off(a.at(at).cast(I32), a_zero(row(at).as_ref()));
        let right = |at: &[Expr]| taken_off(b.at(at).cast(I32), b_zero(at.last().filter(|_| at.len() > 1)));
        return product(a, b, left, right);
    }
    let sums = product(a, b, |at| a.tensor.at(at).cast(I32), |at| b.tensor.at(at).cast(I32))?.named("sums");
    let (a_last, b_last) = (a.rank() - 1, b.rank() - 1);
    let depth = a.shape[a_last];
    let r = reduce_axis(0, depth, "r");
    let rows = tensor(&a.shape[..a_last], |position| {
        let mut at = position.to_vec();
        at.push(r.expr());
        te::sum(a.tensor.at(&at).cast(I32), &r)
    });
    let mut shape = b.shape.clone();
    shape.remove(b_last - 1);
    let s = reduce_axis(0, depth, "s");
    let columns = tensor(&shape, |position| {
        let mut at = position.to_vec();
        at.insert(b_last - 1, s.expr());
        te::sum(b.tensor.at(&at).cast(I32), &s)
    });
    let shape: Vec<i64> = sums.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
    Ok(tensor(&shape, |position| {
        let (row, column) = (&position[shape.len() - 2], &position[shape.len() - 1]);
        // For a factor with a single matrix, or with fewer dimensions, that matrix is used.
        let of = |extents: &[i64]| -> Vec<Expr> {
            let skipped = shape.len() - 2 - extents.len();
            let pairs = extents.iter().zip(&position[skipped..]);
            pairs.map(|(extent, index)| if *extent == 1 { Expr::int(0) } else { index.clone() }).collect()
        };
        let (x, y) = (a_zero(Some(row)), b_zero(Some(column)));
        let mut sum = sums.at(position);
        if let Some(x) = &x {
            let mut at = of(&b.shape[..b_last - 1]);
            at.push(column.clone());
            sum = sum - columns.at(&at) * x;
        }
        if let Some(y) = &y {
            let mut at = of(&a.shape[..a_last - 1]);
            at.push(row.clone());
            sum = sum - rows.at(&at) * y;
        }
        match (x, y) {
            (Some(x), Some(y)) => sum + x * y * Expr::constant(I32, depth),
            _ => sum,
        }
    }))
}
