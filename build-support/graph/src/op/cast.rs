//! Conversions of element types.

use kernpack::DataType;
use kernpack_compiler::ir::{DataTypeExt, Expr, Tensor};
use kernpack_compiler::te;

use super::call::tensor;
use super::narrow::converted;
use super::{Call, Operator, Pattern};
use crate::constant::stored;
use crate::error::Result;
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "Cast",
        pattern: Pattern::Elementwise,
        make: |call| cast(call, dtype_of(call.attrs.needed_int("to")?)?),
    },
    Operator { name: "CastLike", pattern: Pattern::Elementwise, make: |call| cast(call, call.input(1)?.element) },
];

fn cast(call: &Call, dtype: DataType) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let saturate = call.attrs.flag("saturate", true)?;
    Ok(vec![tensor(&x.shape, |position| {
        let value = x.at(position);
        converted(&value, x.element, dtype, saturate).unwrap_or_else(|| convert(&value, stored(dtype)))
    })])
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
