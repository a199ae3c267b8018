//! Numbers as small integers with a scale and a zero point.

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, BOOLEAN, DataTypeExt, Expr, F32, I32, IterVar, Tensor, U8};
use kernpack_compiler::te;

use super::call::{Operand, tensor, zeros};
use super::extremum::{max, min};
use super::narrow::{decoded, encoded, is_narrow};
use super::{Call, Operator, Pattern};
use crate::constant::stored;
use crate::error::{Result, require};
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "QuantizeLinear", pattern: Pattern::Elementwise, make: quantize },
    Operator { name: "DequantizeLinear", pattern: Pattern::Elementwise, make: dequantize },
    Operator { name: "DynamicQuantizeLinear", pattern: Pattern::Opaque, make: dynamic },
    Operator { name: "QLinearMatMul", pattern: Pattern::Heavy, make: matmul },
];

/// Returns the element of a scale or zero point for a position of the tensor: for all of it, by
/// axis, or by blocks.
fn parameter(call: &Call, x: &Operand, of: &Operand, position: &[Expr]) -> Result<Expr> {
    if of.rank() == 0 || of.shape == [1] {
        return Ok(decoded(of.at(&vec![Expr::int(0); of.rank()]), of.element));
    }
    // A tensor with one axis has no choice.
    let axis = x.axis(call.attrs.int("axis", i64::from(x.rank() != 1))?)?;
    let block = call.attrs.int("block_size", 0)?;
    let is_in_blocks = x.rank() == 1 && block > 0 && of.shape != x.shape;
    if of.rank() == 1 && !is_in_blocks {
        require!(of.shape[0] == x.shape[axis], "{:?} scales for axis {axis} of {:?}", of.shape, x.shape);
        return Ok(decoded(of.at(&[position[axis].clone()]), of.element));
    }
    let blocks = |extent: i64| if block > 0 { extent / block + i64::from(extent % block != 0) } else { 0 };
    let fits = block > 0
        && of.rank() == x.rank()
        && (0..x.rank())
            .all(|other| of.shape[other] == if other == axis { blocks(x.shape[axis]) } else { x.shape[other] });
    require!(fits, "scales {:?} do not fit {:?} in blocks of {block}", of.shape, x.shape);
    let mut at = position.to_vec();
    at[axis] = position[axis].floor_div(block);
    Ok(decoded(of.at(&at), of.element))
}

/// Checks attribute `block_size`.
fn check_block(call: &Call) -> Result<()> {
    let block = call.attrs.int("block_size", 0)?;
    require!(block >= 0, "attribute `block_size` is {block}: expected 0 or a positive number");
    Ok(())
}

/// Divides in the type that attribute `precision` names. A quotient in single precision that is
/// rounded again is the nearest one of half precision and bfloat16, too.
fn divided(call: &Call, x: Expr, scale: Expr) -> Result<Expr> {
    let number = call.attrs.int("precision", 0)?;
    require!(
        matches!(number, 0 | 1 | 10 | 16),
        "attribute `precision` is {number}: expected 1 (float32), 10 (float16) or 16 (bfloat16)"
    );
    let rounded = |value: Expr| match number {
        10 | 16 => dtype_of(number).map(|dtype| value.cast(dtype).cast(F32)),
        _ => Ok(value),
    };
    rounded(rounded(x.cast(F32))? / rounded(scale.cast(F32))?)
}

/// Rounded to even and saturated.
pub(crate) fn saturated(value: Expr, dtype: DataType) -> Expr {
    let bits = i32::from(dtype.bits());
    let (low, high) =
        if dtype.is_uint() { (0.0, 2f64.powi(bits) - 1.0) } else { (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0) };
    let wide = value.dtype();
    value.max(te::constant(low, wide)).min(te::constant(high, wide)).cast(stored(dtype))
}

fn quantize(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let dtype = match (zero, call.attrs.int("output_dtype", 0)?) {
        (Some(zero), 0) => zero.element,
        (Some(zero), number) => {
            let named = dtype_of(number)?;
            require!(
                named == zero.element,
                "attribute `output_dtype` is {named}, and input 2, the zero point, is {}: expected the same type",
                zero.element
            );
            named
        }
        (None, 0) => U8,
        (None, number) => dtype_of(number)?,
    };
    let is_small = dtype.bits() <= 16 && dtype != BOOLEAN && !(dtype.is_float() || dtype == BF16);
    require!(
        is_small,
        "quantization to {dtype} is not supported: expected integers of at most 16 bits or floats of at most 8"
    );
    check_block(call)?;
    let saturate = call.attrs.flag("saturate", true)?;
    let mut outcome = Ok(());
    let result = tensor(&x.shape, |position| {
        let made = parameter(call, x, scale, position).and_then(|scale| {
            let scaled = divided(call, x.at(position), scale)?;
            if !dtype.is_integer() {
                // The zero point of 8-bit floats only determines the type.
                let shifted = match zero {
                    Some(zero) if dtype.bits() < 8 => scaled + parameter(call, x, zero, position)?,
                    _ => scaled,
                };
                return Ok(encoded(&shifted, dtype, saturate));
            }
            let rounded = te::round(scaled);
            let shifted = match zero {
                Some(zero) => rounded + parameter(call, x, zero, position)?.cast(F32),
                None => rounded,
            };
            Ok(saturated(shifted, dtype))
        });
        made.unwrap_or_else(|error| {
            outcome = Err(error);
            Expr::constant(stored(dtype), 0)
        })
    });
    outcome.map(|()| vec![result])
}

fn dequantize(call: &Call) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    require!(!x.dtype.is_float(), "dequantization of {} is not supported", x.dtype);
    check_block(call)?;
    if let Some(zero) = call.optional(2) {
        require!(
            zero.element == x.element,
            "input 2, the zero point, is {}, and input 0 is {}: expected the same type",
            zero.element,
            x.element
        );
    }
    let result_type = match call.attrs.int("output_dtype", 0)? {
        0 => scale.element,
        number => dtype_of(number)?,
    };
    require!(
        result_type.is_float() && !is_narrow(result_type),
        "the result would be {result_type}, which is not supported: attribute `output_dtype` names another type"
    );
    let mut outcome = Ok(());
    let result = tensor(&x.shape, |position| {
        let made = parameter(call, x, scale, position).and_then(|scale| {
            if !x.element.is_integer() {
                let value = decoded(x.at(position), x.element);
                return Ok((value * scale.cast(F32)).cast(result_type));
            }
            let value = match call.optional(2) {
                Some(zero) => x.at(position).cast(I32) - parameter(call, x, zero, position)?.cast(I32),
                None => x.at(position).cast(I32),
            };
            Ok((value.cast(F32) * scale.cast(F32)).cast(result_type))
        });
        made.unwrap_or_else(|error| {
            outcome = Err(error);
            te::constant(0.0, result_type)
        })
    });
    outcome.map(|()| vec![result])
}

/// The scale is (max(0, largest) - min(0, smallest)) / 255.
fn dynamic(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if x.shape.contains(&0) {
        // Like onnxruntime.
        return Ok(vec![zeros(&x.shape, U8), tensor(&[], |_| te::constant(1.0, F32)), zeros(&[], U8)]);
    }
    let all = |name: &str| -> Vec<IterVar> {
        let axes = x.shape.iter().enumerate();
        axes.map(|(axis, extent)| te::reduce_axis(0, *extent, &format!("{name}{axis}"))).collect()
    };
    let at = |loops: &[IterVar]| x.at(&loops.iter().map(IterVar::expr).collect::<Vec<_>>());
    let (r, s) = (all("r"), all("s"));
    let none: &[Expr] = &[];
    let (largest, smallest) = if r.is_empty() {
        (tensor(&[], |_| x.at(none)), tensor(&[], |_| x.at(none)))
    } else {
        (tensor(&[], |_| te::reduce_max(at(&r), &r[..])), tensor(&[], |_| te::reduce_min(at(&s), &s[..])))
    };
    let zero = || te::constant(0.0, F32);
    let scale =
        tensor(&[], |_| (max(largest.at(none), zero()) - min(smallest.at(none), zero())) / te::constant(255.0, F32));
    let point = tensor(&[], |_| saturated(te::round(zero() - min(smallest.at(none), zero()) / scale.at(none)), U8));
    let result = tensor(&x.shape, |position| {
        saturated(te::round(x.at(position) / scale.at(none)) + point.at(none).cast(F32), U8)
    });
    Ok(vec![result, tensor(&[], |_| scale.at(none)), tensor(&[], |_| point.at(none))])
}

/// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of the
/// result.
fn matmul(call: &Call) -> Result<Vec<Tensor>> {
    let (a, b, y_zero) = (call.input(0)?, call.input(3)?, call.input(7)?);
    let dtype = y_zero.dtype;
    // By row of a, by column of b.
    let by = |of: &Operand, index: Option<&Expr>| match of.rank() {
        0 => of.at(&[]),
        1 if of.shape == [1] => of.at(&[Expr::int(0)]),
        _ => {
            let mut at = vec![Expr::int(0); of.rank()];
            if let (Some(index), Some(place)) = (index, of.shape.iter().position(|extent| *extent != 1)) {
                at[place] = index.clone();
            }
            of.at(&at)
        }
    };
    let (a_zero, b_zero) = (call.input(2)?, call.input(5)?);
    let sums = super::matmul::integer_product(
        a,
        b,
        |row| Some(by(a_zero, row).cast(I32)),
        |column| Some(by(b_zero, column).cast(I32)),
    )?;
    let (a_scale, b_scale, y_scale) = (call.input(1)?, call.input(4)?, call.input(6)?);
    let shape: Vec<i64> = sums.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
    Ok(vec![tensor(&shape, |position| {
        let row = position.len().checked_sub(2).map(|row| &position[row]);
        let scale = by(a_scale, row).cast(F32) * by(b_scale, position.last()).cast(F32) / by(y_scale, row).cast(F32);
        let scaled = te::round(sums.at(position).cast(F32) * scale);
        saturated(scaled + by(y_zero, row).cast(F32), dtype)
    })])
}
