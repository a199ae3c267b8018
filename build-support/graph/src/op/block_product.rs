//! Products with weights of a few bits, which have a scale for each block of a column.

use kernpack_compiler::ir::{BinaryOp, Expr, Tensor, U8};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::tensor;
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The product of the importer of `MatMulNBits`. Inputs: rows, weights, scales, and zero points,
/// which are floats. The weights are bytes `[column, block, byte]`. A byte has a weight of each
/// part of its block: with 4 bits, byte `j` of a block of 32 has the weights `j` and `16 + j`, the
/// first one in the lower bits. So the weights of a part are read with adjacent numbers of a row.
pub(crate) static BLOCK_PRODUCT: Operator =
    Operator { name: "MatMulNBits", pattern: Pattern::Heavy, make: block_product };

fn block_product(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (zeros, bits) = (call.optional(3), call.attrs.needed_int("bits")?);
    let fits = matches!(bits, 2 | 4 | 8) && b.dtype == U8 && b.rank() == 3 && a.rank() > 0;
    require!(fits, "{bits} bits in {} of {:?} are not supported", b.dtype, b.shape);
    let (columns, blocks, length, parts) = (b.shape[0], b.shape[1], b.shape[2], 8 / bits);
    let depth = a.shape[a.rank() - 1];
    require!(
        i128::from(depth) == i128::from(blocks) * i128::from(length) * i128::from(parts),
        "rows of {depth} numbers do not fit {blocks} blocks of {} weights",
        i128::from(length) * i128::from(parts)
    );
    for numbers in core::iter::once(scales).chain(zeros) {
        let expected = [columns, blocks];
        require!(numbers.shape == expected, "numbers of blocks are {:?}: expected {expected:?}", numbers.shape);
        require!(numbers.dtype == a.dtype, "numbers of blocks are {}, rows are {}", numbers.dtype, a.dtype);
    }
    let last = a.rank() - 1;
    let mut shape = a.shape.clone();
    shape[last] = columns;
    let zero = te::constant(0.0, a.dtype);
    if shape.contains(&0) || depth == 0 {
        return Ok(vec![tensor(&shape, |_| zero)]);
    }
    let (block, byte) = (reduce_axis(0, blocks, "block"), reduce_axis(0, length, "byte"));
    Ok(vec![tensor(&shape, |position| {
        let column = &position[last];
        let of_block = [column.clone(), block.expr()];
        let offset = match zeros {
            Some(zeros) => zeros.at(&of_block),
            None => te::constant(2f64.powi(i32::try_from(bits).unwrap_or(8) - 1), a.dtype),
        };
        let stored = b.tensor.at(&[column.clone(), block.expr(), byte.expr()]);
        let mut sum: Option<Expr> = None;
        for part in 0..parts {
            let mut at = position.to_vec();
            at[last] = block.expr() * (length * parts) + byte.expr() + part * length;
            let weight = weight(&stored, part, bits).cast(a.dtype) - &offset;
            let product = a.at(&at) * weight;
            sum = Some(match sum {
                Some(sum) => sum + product,
                None => product,
            });
        }
        te::sum(sum.unwrap_or(zero) * scales.at(&of_block), &[block.clone(), byte.clone()][..])
    })])
}

/// Returns the weight of a part of a block.
fn weight(stored: &Expr, part: i64, bits: i64) -> Expr {
    let number = |value: i64| Expr::constant(U8, value);
    let shifted = match part {
        0 => stored.clone(),
        _ => Expr::binary(BinaryOp::ShiftRight, stored, number(part * bits)),
    };
    // The bits of the last part have nothing above them.
    if (part + 1) * bits == 8 { shifted } else { Expr::binary(BinaryOp::BitAnd, shifted, number((1 << bits) - 1)) }
}
