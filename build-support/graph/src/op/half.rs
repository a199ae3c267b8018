//! Half precision and bfloat16: an operator that sums is computed in single precision, and its
//! results are rounded once. So the mean of 1000 numbers of 100 is 100, although half precision
//! cannot represent their sum.

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, F16, F32, Tensor};

use super::call::{Call, tensor};
use super::{NodeOp, Pattern};
use crate::error::Result;

/// Operators that read a known second input unconverted and widen it, so that it stays half as
/// large.
pub(crate) const WIDENING: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// Operators whose results are elements of their input, so no rounding is needed.
const CHOOSING: [&str; 3] = ["Compress", "TopK", "Unique"];

fn is_half(dtype: DataType) -> bool {
    dtype == F16 || dtype == BF16
}

/// Computes the formula of an operator.
///
/// # Errors
/// Returns an error for inputs that do not match it.
pub(crate) fn make(op: &NodeOp, mut call: Call) -> Result<Vec<Tensor>> {
    let made = op.make(&call)?;
    let sums = op.listed().is_some()
        && !CHOOSING.contains(&op.name())
        && matches!(op.pattern(), Pattern::Reduction | Pattern::Heavy | Pattern::Opaque);
    if !sums || !made.iter().any(|tensor| is_half(tensor.dtype)) {
        return Ok(made);
    }
    for (index, input) in call.inputs.iter_mut().enumerate() {
        let Some(input) = input.as_mut().filter(|input| is_half(input.dtype)) else { continue };
        if index == 1 && input.value.is_some() && WIDENING.contains(&op.name()) {
            continue;
        }
        let narrow = input.tensor.clone();
        input.tensor = tensor(&input.shape, |position| narrow.at(position).cast(F32));
        (input.dtype, input.element) = (F32, F32);
    }
    let pairs: Vec<(Tensor, Tensor)> = op.make(&call)?.into_iter().zip(made).collect();
    let is_rounded = |(wide, narrow): &(Tensor, Tensor)| wide.dtype != narrow.dtype;
    // The results of one operation are either all results of the node or none.
    let is_shared = |wide: &Tensor| pairs.iter().any(|pair| is_rounded(pair) && pair.0.op == wide.op);
    let rounded = pairs.iter().map(|(wide, narrow)| {
        if wide.dtype == narrow.dtype && !is_shared(wide) {
            return wide.clone();
        }
        let shape: Vec<i64> = wide.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
        tensor(&shape, |position| wide.at(position).cast(narrow.dtype))
    });
    Ok(rounded.collect())
}
