//! Tensors that are computed from positions.

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, Tensor, U64};
use kernpack_compiler::te;

use super::call::tensor;
use super::cast::convert;
use super::{Call, Operator, Pattern};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::onnx::dtype_of;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator { name: "ConstantOfShape", pattern: Pattern::Injective, make: constant_of_shape },
    Operator { name: "Range", pattern: Pattern::Injective, make: range },
    Operator { name: "EyeLike", pattern: Pattern::Injective, make: eye_like },
    Operator { name: "OneHot", pattern: Pattern::Injective, make: one_hot },
    Operator { name: "Trilu", pattern: Pattern::Elementwise, make: trilu },
];

fn constant_of_shape(call: &Call) -> Result<Vec<Tensor>> {
    let shape = call.ints(0)?;
    let value = match call.attrs.get("value") {
        None => Expr::float(F32, 0.0),
        Some(Attr::Tensor(value)) if value.len() == 1 => {
            if value.dtype().is_float() {
                Expr::float(value.dtype(), value.to_floats()?[0])
            } else {
                let int = value.to_int_bits()?[0];
                if value.dtype().is_bool() { Expr::bool(int != 0) } else { Expr::constant(value.dtype(), int) }
            }
        }
        Some(_) => fail!("attribute `value` has to be a tensor of one element"),
    };
    Ok(vec![tensor(&shape, |_| value)])
}

fn range(call: &Call) -> Result<Vec<Tensor>> {
    let mut values = Vec::new();
    for index in 0..3 {
        let operand = call.input(index)?;
        let Some(value) = operand.value.as_ref().filter(|value| value.len() == 1) else {
            fail!("input {index} has to be one number that is known when the model is compiled")
        };
        values.push(value);
    }
    let dtype = call.input(0)?.dtype;
    let stash = call.attrs.int("stash_type", 1)?;
    require!(stash == 1, "attribute `stash_type` is {stash}: it is supported as 1, which is float32");
    let (first, step, count) = if dtype.is_float() {
        let floats = values.iter().map(|value| Ok(value.to_floats()?[0])).collect::<Result<Vec<f64>>>()?;
        let [start, limit, delta] = floats[..] else { fail!("three inputs are needed") };
        require!(delta != 0.0, "the step is 0");
        let distance = (limit - start) / delta;
        require!(!distance.is_nan(), "there are no steps of {delta} from {start} to {limit}");
        (te::constant(start, dtype), te::constant(delta, dtype), (limit - start) / delta)
    } else {
        let ints = values.iter().map(|value| Ok(value.to_int_bits()?[0])).collect::<Result<Vec<i64>>>()?;
        let [start, limit, delta] = ints[..] else { fail!("three inputs are needed") };
        let exact = |int: i64| if dtype == U64 { i128::from(int.cast_unsigned()) } else { i128::from(int) };
        require!(delta != 0, "the step is 0");
        let (distance, by) = (exact(limit) - exact(start), exact(delta));
        let count = distance / by + i128::from(distance % by != 0 && (distance < 0) == (by < 0));
        (Expr::constant(dtype, start), Expr::constant(dtype, delta), count as f64)
    };
    let count = count.ceil().max(0.0);
    require!(count <= 1e12, "{count} elements are too many");
    #[expect(clippy::cast_possible_truncation, reason = "at most 10^12")]
    let shape = [count as i64];
    // A sum in half precision would be rounded twice.
    let wide = if dtype.is_float() && dtype.bits() < 32 { F32 } else { dtype };
    let (first, step) = (first.cast(wide), step.cast(wide));
    Ok(vec![tensor(&shape, |position| (&first + position[0].cast(wide) * &step).cast(dtype))])
}

fn eye_like(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() == 2, "expected a matrix, got {:?}", x.shape);
    let dtype = call.attrs.find_int("dtype")?.map_or(Ok(x.dtype), dtype_of)?;
    // Beyond the corners of the matrix all diagonals are the same.
    let k = call.attrs.int("k", 0)?.clamp(-x.shape[0], x.shape[1]);
    Ok(vec![tensor(&x.shape, |position| convert(&(&position[0] + k).equals(&position[1]), dtype))])
}

fn one_hot(call: &Call) -> Result<Vec<Tensor>> {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = match call.input(1)?.value.as_ref() {
        Some(depth) if depth.len() == 1 => depth.to_floats()?[0],
        _ => fail!("the depth has to be one number that is known when the model is compiled"),
    };
    #[expect(clippy::cast_possible_truncation, reason = "an extent; too large ones are refused by the shape")]
    let depth = depth as i64;
    require!(values.shape == [2], "the values have to be two, off and on, not {:?}", values.shape);
    let axis = super::call::axis_of(call.attrs.int("axis", -1)?, indices.rank() + 1)?;
    let mut shape = indices.shape.clone();
    shape.insert(axis, depth);
    Ok(vec![tensor(&shape, |position| {
        let mut at = position.to_vec();
        let place = at.remove(axis);
        let index = indices.at(&at).cast(kernpack_compiler::ir::I64);
        let index = if indices.dtype.is_uint() { index } else { Expr::select(index.less(0), &index + depth, index) };
        let on = index.equals(place);
        te::select(on, values.at(&[Expr::int(1)]), values.at(&[Expr::int(0)]))
    })])
}

fn trilu(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() >= 2, "expected matrices, got {:?}", x.shape);
    let upper = call.attrs.flag("upper", true)?;
    let k = call.optional_ints(1)?.and_then(|values| values.first().copied()).unwrap_or(0);
    // Beyond the corners of the matrices all diagonals are the same.
    let k = k.clamp(-x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    Ok(vec![tensor(&x.shape, |position| {
        let [.., row, column] = position else { return Expr::int(0) };
        let kept = if upper { column.greater_equal(row + k) } else { column.less_equal(row + k) };
        te::select(kept, x.at(position), te::constant(0.0, x.dtype))
    })])
}
