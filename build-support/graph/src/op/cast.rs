//! Conversions of element types.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, Expr, Tensor};
use kernpack_compiler::te;

use super::call::tensor;
use super::{Call, Operator, Pattern};
use crate::error::Result;
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "Cast",
        pattern: Pattern::Elementwise,
        make: |call| cast(call, dtype_of(call.attrs.needed_int("to")?)?),
    },
    Operator { name: "CastLike", pattern: Pattern::Elementwise, make: |call| cast(call, call.input(1)?.dtype) },
];

fn cast(call: &Call, dtype: DataType) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    Ok(vec![tensor(&x.shape, |position| convert(&x.at(position), dtype))])
}

/// A value as another type: to integers towards zero, to truth values unequal to zero.
pub(super) fn convert(x: &Expr, dtype: DataType) -> Expr {
    let from = x.dtype();
    if from == dtype {
        return x.clone();
    }
    if dtype.is_bool() {
        return x.differs(te::constant(0.0, from));
    }
    if from.is_bool() {
        return te::select(x, te::constant(1.0, dtype), te::constant(0.0, dtype));
    }
    x.cast(dtype)
}
