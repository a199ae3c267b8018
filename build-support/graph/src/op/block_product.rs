//! Products with weights of a few bits, which have a scale for each block of a column.

use kernpack_compiler::ir::{F32, Tensor, U8};
use kernpack_compiler::rules::weight_of;
use kernpack_compiler::te::{self, reduce_axis};

use super::call::tensor;
use super::matmul::WIDTH;
use super::{Call, Operator, Pattern};
use crate::error::{Result, require};

/// The product of the importer of `MatMulNBits`. Inputs: rows, weights, scales, and zero points,
/// which are optional.
///
/// The weights are bytes in panels, as the compiler's rule `panels` reads them:
/// `[column / (16 * p)][row][column % 16]`, where a byte has the weights of `p` adjacent panels,
/// the first one in the lowest bits. Scales and zero points are floats, `[block][column]`, with the
/// columns of the last panel.
pub(crate) static BLOCK_PRODUCT: Operator =
    Operator { name: "MatMulNBits", pattern: Pattern::Heavy, make: block_product };

fn block_product(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (zeros, bits, columns) = (call.optional(3), call.attrs.needed_int("bits")?, call.attrs.needed_int("N")?);
    let fits = matches!(bits, 2 | 4 | 8) && b.dtype == U8 && b.rank() == 3 && a.rank() > 0 && columns > 0;
    require!(fits, "{bits} bits in {} of {:?} are not supported", b.dtype, b.shape);
    let (last, parts) = (a.rank() - 1, 8 / bits);
    let (depth, panels) = (a.shape[last], (columns + parts * WIDTH - 1) / (parts * WIDTH));
    let expected = [panels, depth, WIDTH];
    require!(b.shape == expected, "weights are {:?}: expected {expected:?}", b.shape);
    let [blocks, _] = scales.shape[..] else { crate::error::fail!("scales are {:?}", scales.shape) };
    require!(blocks > 0 && depth % blocks == 0, "rows of {depth} numbers are not divided by {blocks} blocks");
    for numbers in core::iter::once(scales).chain(zeros) {
        let expected = [blocks, panels * parts * WIDTH];
        require!(numbers.shape == expected, "numbers of blocks are {:?}: expected {expected:?}", numbers.shape);
        require!(numbers.dtype == F32, "numbers of blocks are {}: expected float32", numbers.dtype);
    }
    let mut shape = a.shape.clone();
    shape[last] = columns;
    if shape.contains(&0) || depth == 0 {
        return Ok(vec![tensor(&shape, |_| te::constant(0.0, a.dtype))]);
    }
    let size = depth / blocks;
    let k = reduce_axis(0, depth, "k");
    let sums = tensor(&shape, |position| {
        let column = &position[last];
        let of_block = [k.expr().floor_div(size), column.clone()];
        let offset = match zeros {
            Some(zeros) => zeros.tensor.at(&of_block),
            None => te::constant(2f64.powi(i32::try_from(bits).unwrap_or(8) - 1), F32),
        };
        let place = [column.floor_div(parts * WIDTH), k.expr(), column.floor_mod(WIDTH)];
        let weight = weight_of(&b.tensor.at(&place), column, bits) - offset;
        let mut at = position.to_vec();
        at[last] = k.expr();
        te::sum(a.at(&at).cast(F32) * (weight * scales.tensor.at(&of_block)), &k)
    });
    if a.dtype == F32 {
        return Ok(vec![sums]);
    }
    Ok(vec![tensor(&shape, |position| sums.at(position).cast(a.dtype))])
}
