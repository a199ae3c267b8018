//! Builtin functions of one element.

use kernpack::DataType;

use super::values::Value;
use crate::error::{Result, fail};
use crate::ir::DataTypeExt;
use crate::ir::builder::{round_float, wrap_int};

/// A builtin that depends on its arguments alone. Floats are computed in double precision and rounded once.
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
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.exp_m1(),
        "log" => x.ln(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.ln_1p(),
        "tanh" => x.tanh(),
        "sigmoid" if x < 0.0 => x.exp() / (1.0 + x.exp()),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "erf" => erf(x),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "atan2" => x.atan2(arg(1).float()),
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "pow" => x.powf(arg(1).float()),
        "abs" => x.abs(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "trunc" => x.trunc(),
        "round" => x.round_ties_even(),
        "copysign" => x.copysign(arg(1).float()),
        "nanmin" => x.min(arg(1).float()),
        "nanmax" => x.max(arg(1).float()),
        // The product of singles is exact in a double, but the sum is not: rounding it twice may miss the nearest single.
        "fma" if dtype.bits() == 32 => f64::from((x as f32).mul_add(arg(1).float() as f32, arg(2).float() as f32)),
        "fma" => x.mul_add(arg(1).float(), arg(2).float()),
        _ => fail!(Run, "a call of `{name}`, which has no value here"),
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

/// The error function, to the last digits of a double: the series below 3, the continued fraction of the complement above.
pub(crate) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if x.is_nan() || x == 0.0 {
        return x;
    }
    let value = if size < 3.0 {
        // e^(-x^2) * sum of 2^n x^(2n+1) / (1 * 3 * .. * (2n+1)): all terms are positive, nothing cancels.
        let (mut term, mut sum, mut n) = (size, size, 0.0);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= 2.0 * size * size / (2.0 * n + 1.0);
            sum += term;
        }
        sum * (-size * size).exp() * core::f64::consts::FRAC_2_SQRT_PI
    } else if size < 6.5 {
        let mut fraction = 0.0;
        for n in (1..=60).rev() {
            fraction = f64::from(n) / 2.0 / (size + fraction);
        }
        1.0 - (-size * size).exp() / (size + fraction) * core::f64::consts::FRAC_2_SQRT_PI / 2.0
    } else {
        1.0
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_right_to_the_last_digits() {
        // Digits of the tables of Abramowitz and Stegun, and of longer ones.
        let known = [
            (0.1, 0.112_462_916_018_284_9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
            (4.0, 0.999_999_984_582_742_1),
        ];
        for (x, expected) in known {
            assert!((erf(x) - expected).abs() < 4e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
    }
}
