//! pow, rsqrt.

use super::exact::{fast_two_sum, product, two_sum};
use super::exponential::exp_of_sum;
use super::format::{DOUBLE, Format};
use super::formula::{Formula, Value};
use super::logarithm::split_any;
use crate::ir::{F32, F64};

/// `(ln((1 + s) / (1 - s)) - 2 s) / s^3` in s^2, to 2^-43.
const LOG32: &[f64] =
    &[0.6666666667579977, 0.39999995622560625, 0.2857210905079318, 0.22176194338659055, 0.19584055393708086];
/// `(2^r - 1) / r`, to 2^-32.
const EXP2_32: &[f64] = &[
    0.6931471838173161,
    0.24022650920816163,
    0.055504003742323324,
    0.009618056913424697,
    0.0013341951565637561,
    0.00015461369865788185,
    1.335977346068516e-05,
];

/// `(ln((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5` in s^2.
const LOG64: &[f64] = &[
    0.4,
    0.2857142857142689,
    0.2222222222271647,
    0.18181818106029016,
    0.15384622184780386,
    0.13332959936914596,
    0.11777267398507248,
    0.10278950185154268,
    0.1202912398256304,
];
/// 2/3 in two parts.
const TWO_THIRDS: [f64; 2] = [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17];

/// 1 / sqrt(x).
pub(super) fn rsqrt(x: Value<'_>) -> Value<'_> {
    x.like(1.0) / x.sqrt()
}

/// x^y in single precision: 2^(y log2 x) in double precision, rounded once.
pub(super) fn pow32<'a>(formula: &'a Formula, x: Value<'a>, y: Value<'a>) -> Value<'a> {
    let (x, y) = (x.cast(F64), y.cast(F64));
    let size = x.abs();
    let bits = size.bits();
    let e = (bits - 0x3fe6_a09e_667f_3bcd) >> 52;
    let m = (bits - (e << 52)).float_of_bits();
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let ln = s * (z * formula.polynomial(z, LOG32) + 2.0);
    let log2 = ln.mul_add(core::f64::consts::LOG2_E, DOUBLE.float_of_int(e));
    let log2 = log_with_specials(size, log2);
    let w = (y * log2).at_most(200.0).at_least(-200.0);
    let (count, n) = DOUBLE.round(w);
    let r = w - count;
    let power = (r * formula.polynomial(r, EXP2_32) + 1.0) * DOUBLE.power_of_two(n);
    with_specials(&DOUBLE, x, y, power).cast(F32)
}

/// ln of a positive number as the sum of two doubles, accurate to about 2^-64.
fn ln_exact<'a>(formula: &'a Formula, size: Value<'a>) -> (Value<'a>, Value<'a>) {
    let (e, f) = split_any(&DOUBLE, size);
    // s = f / (2 + f)
    let (below, below_low) = two_sum(f.like(2.0), f);
    let s = f / below;
    let (part, error) = product(s, below);
    let s_low = (((f - part) - error) - s * below_low) / below;
    // ln((1 + s) / (1 - s)) = s (2 + z (2/3 + z P(z)))
    let (z, z_error) = product(s, s);
    let z_low = z_error + (s + s) * s_low;
    let (third, third_low) = fast_two_sum(z.like(TWO_THIRDS[0]), z * formula.polynomial(z, LOG64));
    let third_low = third_low + TWO_THIRDS[1];
    let (u, u_error) = product(z, third);
    let (v, v_error) = fast_two_sum(u.like(2.0), u);
    let v_low = v_error + (u_error + (z * third_low + z_low * third));
    let (ln, ln_error) = product(s, v);
    let ln_low = ln_error + (s * v_low + s_low * v);
    let [high, low] = DOUBLE.ln2;
    let (sum, lost) = fast_two_sum(e * high, ln);
    fast_two_sum(sum, lost + (ln_low + e * low))
}

/// x^y in double precision: e^(y ln x), with about ten additional digits for ln x and the product.
pub(super) fn pow64<'a>(formula: &'a Formula, x: Value<'a>, y: Value<'a>) -> Value<'a> {
    let size = x.abs();
    let (ln, ln_low) = ln_exact(formula, size);
    let rough = y * log_with_specials(size, ln);
    // Beyond it, the power is infinity or 0, and products may be out of range.
    let limit = rough.like(800.0);
    let far = rough.abs().gt(limit);
    let (exponent, error) = product(y, ln);
    let low = error + y * ln_low;
    let exponent = rough.abs().le(limit).select(exponent, far.select(limit.copysign(rough), rough));
    let low = rough.abs().le(limit).select(low, low.like(0.0));
    with_specials(&DOUBLE, x, y, exp_of_sum(formula, &DOUBLE, exponent, low))
}

/// The logarithm of a magnitude that may be 0, infinity or NaN.
fn log_with_specials<'a>(size: Value<'a>, log: Value<'a>) -> Value<'a> {
    let special = size.eq(0.0).select(f64::NEG_INFINITY, size);
    size.gt(0.0).and(size.lt(f64::INFINITY)).select(log, special)
}

/// Special cases of the power: signs, and powers of and to 0, 1, infinity.
fn with_specials<'a>(format: &Format, x: Value<'a>, y: Value<'a>, power: Value<'a>) -> Value<'a> {
    // From 2^52 on all numbers are integers, from 2^53 on all are even. Half of an odd integer is
    // not an integer.
    let size = y.abs();
    let is_integer = size.ge(2f64.powi(52)).or(whole(format, size));
    let odd = is_integer.and(size.lt(2f64.powi(53))).and(whole(format, size * 0.5).not());
    let negative = (x.bits() >> 63).ne(0);
    let signed = negative.and(odd).select(-power, power);
    let no_root = x.lt(0.0).and(x.gt(f64::NEG_INFINITY)).and(is_integer.not());
    let result = no_root.select(f64::NAN, signed);
    let unit = x.abs().eq(1.0).and(y.abs().eq(f64::INFINITY));
    y.eq(0.0).or(x.eq(1.0)).or(unit).select(1.0, result)
}

/// True if a positive number below 2^52 is an integer.
fn whole<'a>(format: &Format, value: Value<'a>) -> Value<'a> {
    if value.formula().reassociates() {
        return value.round().eq(value);
    }
    // The sum with 2^52 is exact only for integers.
    let step = 2f64.powi(format.mantissa as i32);
    ((value + step) - step).eq(value)
}
