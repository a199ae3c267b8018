//! The operator of byte products with known matrices.

use kernpack_compiler::ir::{Expr, F32, I32, Tensor, U8};
use kernpack_compiler::te::{self, reduce_axis};

use super::panels::{COLUMNS, DEPTH};
use crate::error::{Result, require};
use crate::op::{Call, Operand, Operator, Pattern, element_tensor, saturated};

/// The product of bytes and a known matrix.
///
/// Inputs: bytes with at least two dimensions, the panels of a matrix, a number for each column
/// that is subtracted from the sums, and the following optional ones: the zero point of the bytes,
/// by which the previous input is multiplied; the zero points of the columns, multiplied by the
/// sums of rows; a scale, with which the result is floats; a bias that is added then; the zero
/// point of a byte result, to which the result is rounded.
pub(super) static PRODUCT: Operator = Operator { name: "ByteProduct", pattern: Pattern::Heavy, make: product };

fn product(call: &Call) -> Result<Vec<Tensor>> {
    let (a, panels, offsets) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require!(a.rank() >= 2, "{:?} is not a matrix", a.shape);
    let (last, columns) = (a.rank() - 1, offsets.shape[0]);
    let depth = a.shape[last];
    let mut shape = a.shape.clone();
    shape[last] = columns;
    let (width, part) = (COLUMNS as i64, DEPTH as i64);
    // Signed bytes are shifted, because the instructions take an unsigned first factor.
    let shift = if a.dtype == U8 { 0 } else { 128 };
    let byte = |at: &[Expr]| {
        let value = a.tensor.at(at);
        if shift == 0 { value } else { (value.cast(I32) + shift).cast(U8) }
    };
    let with = |position: &[Expr], index: Expr| {
        let mut at = position.to_vec();
        at[last] = index;
        at
    };
    if shape.contains(&0) {
        let dtype = match (call.optional(7), call.optional(5)) {
            (Some(zero), _) => zero.dtype,
            (None, Some(_)) => F32,
            (None, None) => I32,
        };
        return Ok(vec![element_tensor(&shape, |_| te::constant(0.0, dtype))]);
    }
    let k = reduce_axis(0, depth, "k");
    let sums = element_tensor(&shape, |position| {
        let (j, k_) = (&position[last], k.expr());
        let at = [j.floor_div(width), k_.floor_div(part), j.floor_mod(width), k_.floor_mod(part)];
        te::sum(byte(&with(position, k_)).cast(I32) * panels.tensor.at(&at).cast(I32), &k)
    })
    .named("sums");
    let zero = call.optional(3).map(|zero| zero.at(&vec![Expr::int(0); zero.rank()]).cast(I32) + shift);
    // Sums of rows, if columns have zero points.
    let rows = call.optional(4).map(|zeros| {
        let r = reduce_axis(0, depth, "r");
        let rows = element_tensor(&shape[..last], |position| {
            let mut at = position.to_vec();
            at.push(r.expr());
            te::sum(byte(&at).cast(I32), &r)
        });
        (zeros, rows.named("rows"))
    });
    let (scale, bias, y_zero) = (call.optional(5), call.optional(6), call.optional(7));
    let by_column = |of: &Operand, column: &Expr| of.at(&[if of.shape == [1] { Expr::int(0) } else { column.clone() }]);
    let result = element_tensor(&shape, |position| {
        let column = core::slice::from_ref(&position[last]);
        let offset = offsets.tensor.at(column);
        let offset = match &zero {
            Some(zero) => offset * zero.clone(),
            None => offset,
        };
        let mut sum = sums.at(position) - offset;
        if let Some((zeros, rows)) = &rows {
            sum = sum - rows.at(&position[..last]) * zeros.tensor.at(column);
        }
        let Some(scale) = scale else { return sum };
        let mut value = sum.cast(F32) * by_column(scale, &position[last]);
        if let Some(bias) = bias {
            value = value + bias.broadcast_at(position);
        }
        match y_zero {
            Some(zero) => {
                let zero_value = zero.at(&vec![Expr::int(0); zero.rank()]).cast(F32);
                saturated(te::round(value) + zero_value, zero.dtype)
            }
            None => value,
        }
    });
    Ok(vec![result])
}
