//! Builtin functions, for one element.

use kernpack::DataType;

use super::values::Value;
use crate::error::{Result, fail};
use crate::ir::DataTypeExt;
use crate::ir::builder::{round_float, wrap_int};
use crate::ir::float_math::{float_math, small_fma};

/// Evaluates a builtin that depends only on its arguments. Floats are computed in double precision
/// and rounded once.
pub(crate) fn call(name: &str, from: DataType, dtype: DataType, args: &[Value]) -> Result<Value> {
    let arg = |index: usize| args.get(index).copied().unwrap_or(Value::Int(0));
    let x = arg(0).float();
    let truth = |value: bool| Ok(Value::Int(value.into()));
    match name {
        "likely" => return Ok(arg(0)),
        "isnan" => return truth(x.is_nan()),
        "isinf" => return truth(x.is_infinite()),
        "isfinite" => return truth(x.is_finite()),
        "abs" if !dtype.is_float() => return Ok(Value::Int(wrap_int(dtype, arg(0).int().wrapping_abs()))),
        "popcount" => return Ok(Value::Int(bits_of(from, arg(0).int()).count_ones().into())),
        "clz" => {
            let unused = 64 - u32::from(from.bits());
            return Ok(Value::Int((bits_of(from, arg(0).int()).leading_zeros() - unused).into()));
        }
        "ctz" => {
            let zeros = bits_of(from, arg(0).int()).trailing_zeros();
            return Ok(Value::Int(zeros.min(from.bits().into()).into()));
        }
        "bitnot" => return Ok(Value::Int(wrap_int(dtype, !arg(0).int()))),
        "reinterpret" => return reinterpret(from, dtype, arg(0)),
        _ => {}
    }
    let value = match name {
        "abs" => x.abs(),
        "copysign" => x.copysign(arg(1).float()),
        // The product of singles is exact in a double, but the sum is not: double rounding may miss
        // the nearest single.
        "fma" if dtype.bits() == 32 => f64::from((x as f32).mul_add(arg(1).float() as f32, arg(2).float() as f32)),
        "fma" if dtype.bits() == 16 => small_fma(x, arg(1).float(), arg(2).float()),
        "fma" => x.mul_add(arg(1).float(), arg(2).float()),
        _ => match float_math(name, x, arg(1).float()) {
            Some(value) => value,
            None => fail!(Run, "a call of `{name}`, which has no value here"),
        },
    };
    Ok(Value::Float(round_float(dtype, value)))
}

fn bits_of(dtype: DataType, value: i64) -> u64 {
    let bits = u32::from(dtype.bits()).clamp(1, 64);
    (value as u64) & (u64::MAX >> (64 - bits))
}

fn reinterpret(from: DataType, to: DataType, value: Value) -> Result<Value> {
    use super::values::Elements;
    if from.bits() != to.bits() {
        fail!(Run, "reinterpret of {} as {}", from.short_name(), to.short_name());
    }
    let (mut source, mut target) = (Elements::zeros(from, &[1]), Elements::zeros(to, &[1]));
    source.set(0, value);
    target.bytes_mut().copy_from_slice(source.bytes());
    Ok(target.get(0))
}
