//! Conversions of element types.

use kernpack::DataType;
use kernpack_compiler::ir::builtin::REINTERPRET;
use kernpack_compiler::ir::{DataTypeExt, Expr, Tensor};
use kernpack_compiler::te;

use super::call::tensor;
use super::narrow::{Round, converted, few_bits};
use super::{Call, Operator, Pattern};
use crate::constant::stored;
use crate::error::{Result, require};
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "Cast",
        pattern: Pattern::Elementwise,
        make: |call| cast(call, dtype_of(call.attrs.needed_int("to")?)?),
    },
    Operator { name: "BitCast", pattern: Pattern::Elementwise, make: bit_cast },
    Operator { name: "CastLike", pattern: Pattern::Elementwise, make: |call| cast(call, call.input(1)?.element) },
];

fn cast(call: &Call, dtype: DataType) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let saturate = call.attrs.flag("saturate", true)?;
    let round = Round::of(call.attrs)?;
    Ok(vec![tensor(&x.shape, |position| {
        let value = x.at(position);
        converted(&value, x.element, dtype, saturate, round).unwrap_or_else(|| convert(&value, stored(dtype)))
    })])
}

/// Reinterprets the bits of each element as an element of another type with the same width.
fn bit_cast(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let dtype = dtype_of(call.attrs.needed_int("to")?)?;
    // A bool is a byte.
    let bits = |dtype: DataType| if dtype.is_bool() { 8 } else { dtype.bits() };
    require!(bits(x.element) == bits(dtype), "the bits of {} are not as many as those of {dtype}", x.element);
    let target = stored(dtype);
    Ok(vec![tensor(&x.shape, |position| {
        let value = x.at(position);
        match () {
            () if x.dtype.is_float() || target.is_float() => {
                if x.dtype == target {
                    value
                } else {
                    Expr::builtin(REINTERPRET, target, [value])
                }
            }
            () if dtype.bits() < 8 && dtype.is_int() => few_bits(&value, dtype),
            // The bits of a negative integer end at the width of the element.
            () if dtype.bits() < 8 => few_bits(&value, DataType::scalar(1, dtype.bits())),
            () => convert(&value, target),
        }
    })])
}

/// Converts a value to another type: to integers by truncation, to bools by comparison with zero.
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
