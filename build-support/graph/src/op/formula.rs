//! Formulas of elementwise operators that take more than one line: without loss of precision by
//! cancellation, and without intermediate overflow.

use kernpack_compiler::ir::{BinaryOp, DataTypeExt, Expr, F32, F64};
use kernpack_compiler::te;

use super::Call;
use super::extremum::max;
use crate::attrs::Attrs;
use crate::error::{Result, fail, require};

/// Returns a constant of the type of an expression.
pub(super) fn like(x: &Expr, value: f64) -> Expr {
    te::constant(value, x.dtype())
}

pub(super) fn softplus(x: &Expr) -> Expr {
    max(x, like(x, 0.0)) + te::log1p(te::exp(-te::abs(x)))
}

/// `log(x + sqrt(x^2 + 1))` without loss of precision for small x, and with the sign of x.
pub(super) fn asinh(x: &Expr) -> Expr {
    let size = te::abs(x);
    let square = &size * &size;
    let grown = te::log1p(&size + &square / (te::sqrt(&square + like(x, 1.0)) + like(x, 1.0)));
    Expr::math("copysign", [far(&size, grown), x.clone()])
}

/// `log(x + sqrt(x^2 - 1))` without loss of precision for x near 1.
pub(super) fn acosh(x: &Expr) -> Expr {
    let less = x - like(x, 1.0);
    let near = te::log1p(&less + te::sqrt(&less * (x + like(x, 1.0))));
    // Below -1 the product of both is also positive.
    far(x, te::select(x.less(like(x, 1.0)), like(x, f64::NAN), near))
}

/// `log(2 x)` in place of a logarithm whose argument has a square that may overflow.
fn far(x: &Expr, near: Expr) -> Expr {
    te::select(x.greater(like(x, 1e18)), te::log(x) + like(x, core::f64::consts::LN_2), near)
}

/// `log((1 + x) / (1 - x)) / 2` without loss of precision for small x, and with the sign of x.
pub(super) fn atanh(x: &Expr) -> Expr {
    let (size, one) = (te::abs(x), like(x, 1.0));
    let log = te::log1p((&size + &size) / (one - &size)) * like(x, 0.5);
    Expr::math("copysign", [log, x.clone()])
}

pub(super) fn gelu(x: Expr, attrs: &Attrs) -> Result<Expr> {
    let (one, half) = (like(&x, 1.0), like(&x, 0.5));
    let inner = match attrs.text("approximate", "none")? {
        "none" => te::erf(&x * like(&x, core::f64::consts::FRAC_1_SQRT_2)),
        // (1 + tanh(y)) / 2 without loss of precision if both are near 0.
        "tanh" => {
            let cube = &x * &x * &x;
            let twice = (&x + cube * like(&x, 0.044715)) * like(&x, (8.0 / core::f64::consts::PI).sqrt());
            return Ok(&x * te::sigmoid(twice));
        }
        other => fail!("attribute `approximate` is `none` or `tanh`, not `{other}`"),
    };
    Ok(half * x * (inner + one))
}

/// The power, in the type of the base.
pub(super) fn pow(a: Expr, b: Expr) -> Expr {
    let dtype = a.dtype();
    // A small constant exponent becomes products: exact, and much faster.
    if let Some(exponent) = b.as_float().or_else(|| b.as_int().map(|int| int as f64))
        && dtype.is_float()
    {
        match exponent {
            1.0 => return a,
            2.0 => return &a * &a,
            // The square of a narrow type is exact in single precision.
            3.0 if dtype.bits() < 32 => {
                let wide = a.cast(F32);
                return (&wide * &wide * &wide).cast(dtype);
            }
            3.0 => return &a * &a * &a,
            // The root of -0.0 is -0.0, and that of minus infinity is NaN; the powers are 0.0 and
            // infinity.
            0.5 => {
                let (below, above) = (like(&a, f64::NEG_INFINITY), like(&a, f64::INFINITY));
                return te::select(a.equals(below), above, te::sqrt(&a + like(&a, 0.0)));
            }
            _ => {}
        }
    }
    if dtype.is_float() && dtype.bits() >= 32 {
        return te::pow(a, b.cast(dtype));
    }
    if dtype.is_float() {
        return te::pow(a.cast(F32), b.cast(F32)).cast(dtype);
    }
    if b.dtype().is_integer() && !b.dtype().is_bool() {
        return int_pow(&a, &b);
    }
    // A power of integers is an integer, up to the last digit of a double: a cast would truncate.
    te::round(te::pow(a.cast(F64), b.cast(F64))).cast(dtype)
}

/// The power of integers, which wraps like products. For a negative exponent it is the truncated
/// fraction.
fn int_pow(a: &Expr, b: &Expr) -> Expr {
    let (dtype, exponent_type) = (a.dtype(), b.dtype());
    let (zero, one) = (like(a, 0.0), like(a, 1.0));
    let known = b.as_int().filter(|exponent| *exponent >= 0);
    // Squares for all bits of the exponent, or for those of a known one.
    let bits = match known {
        Some(exponent) => i64::from(64 - exponent.leading_zeros()),
        None => i64::from(exponent_type.bits()) - i64::from(!exponent_type.is_uint()),
    };
    let (mut power, mut square) = (one.clone(), a.clone());
    for bit in 0..bits {
        let is_set = match known {
            Some(exponent) => Expr::bool(exponent >> bit & 1 == 1),
            None => {
                let shifted = Expr::binary(BinaryOp::ShiftRight, b, Expr::constant(exponent_type, bit));
                let last = Expr::binary(BinaryOp::BitAnd, shifted, Expr::constant(exponent_type, 1));
                last.differs(Expr::constant(exponent_type, 0))
            }
        };
        power = te::select(is_set, &power * &square, &power);
        if bit + 1 < bits {
            square = &square * &square;
        }
    }
    if known.is_some() || exponent_type.is_uint() {
        return power;
    }
    // With a negative exponent, 1 and -1 have integer powers.
    let is_odd =
        Expr::binary(BinaryOp::BitAnd, b, Expr::constant(exponent_type, 1)).differs(Expr::constant(exponent_type, 0));
    let minus = Expr::constant(dtype, -1);
    let of_minus = if dtype.is_uint() { zero.clone() } else { te::select(is_odd, &minus, &one) };
    let is_minus = if dtype.is_uint() { Expr::bool(false) } else { a.equals(&minus) };
    let below = te::select(a.equals(&one), &one, te::select(is_minus, of_minus, zero));
    te::select(b.less(Expr::constant(exponent_type, 0)), below, power)
}

pub(super) fn modulo(a: Expr, b: Expr, call: &Call) -> Result<Expr> {
    require!(a.dtype() == b.dtype(), "the inputs have different types: {} and {}", a.dtype(), b.dtype());
    let truncates = call.attrs.flag("fmod", false)?;
    if a.dtype().is_float() {
        require!(
            truncates || call.version >= 28,
            "attribute `fmod` has to be 1 for floats before version 28 of the operators"
        );
        // C's function, which is exact for all operands.
        let dtype = a.dtype();
        let wide = if dtype.bits() < 32 { F32 } else { dtype };
        let (a, b) = (a.cast(wide), b.cast(wide));
        let rest = Expr::binary(BinaryOp::Mod, &a, &b);
        if truncates {
            return Ok(rest.cast(dtype));
        }
        // With the sign of the divisor, also for zero.
        let zero = like(&b, 0.0);
        let is_negative = b.less(&zero);
        let own = te::select(&is_negative, -te::abs(&rest), te::abs(&rest));
        let differs = rest.less(&zero).differs(&is_negative);
        let moved = te::select(differs, &rest + &b, &rest);
        return Ok(te::select(rest.equals(zero), own, moved).cast(dtype));
    }
    Ok(Expr::binary(if truncates { BinaryOp::Mod } else { BinaryOp::FloorMod }, a, b))
}
