//! sinh, cosh, tanh: polynomials near 0, exponentials beyond.

use super::exponential::{exp_in_range, expm1_in_range};
use super::format::Format;
use super::formula::{Formula, Value};

const TANH32: &[f64] = &[
    -0.3333333134651184,
    0.13333217799663544,
    -0.053947579115629196,
    0.02170277200639248,
    -0.008178280666470528,
    0.0021408337634056807,
];
const TANH64: &[f64] = &[
    -0.33333333333333315,
    0.1333333333332995,
    -0.05396825396614009,
    0.021869488470388602,
    -0.00886323433324965,
    0.003592114163620212,
    -0.001455726808076105,
    0.0005894548230455426,
    -0.00023701875705106284,
    9.156874005843798e-05,
    -3.0195891897045024e-05,
    6.045624038183871e-06,
];
const SINH32: &[f64] = &[0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06];
const SINH64: &[f64] = &[
    0.16666666666666666,
    0.008333333333333573,
    0.0001984126984106116,
    2.7557319310090925e-06,
    2.505208941263004e-08,
    1.606133918926283e-10,
    7.503264007999559e-13,
    6.4753498992205185e-15,
];

/// `x + x^3 P(x^2)`.
pub(super) fn odd_polynomial<'a>(formula: &'a Formula, x: Value<'a>, z: Value<'a>, coefficients: &[f64]) -> Value<'a> {
    (x * z).mul_add(formula.polynomial(z, coefficients), x)
}

/// Hyperbolic tangent.
pub(super) fn tanh<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let size = x.abs();
    if !format.is_double() && formula.has_fma() {
        // (e^2x - 1) / (e^2x + 1), where the difference is accurate enough near 0.
        let less = expm1_in_range(formula, format, (size + size).at_most(20.0));
        return (less / (less + 2.0)).copysign(x);
    }
    let small = odd_polynomial(formula, size, size * size, format.pick(TANH32, TANH64));
    // The result is 1 from there on.
    let limit = format.pick(20.0, 44.0);
    let t = exp_in_range(formula, format, (size + size).at_most(limit), 0);
    let large = t.like(1.0) - t.like(2.0) / (t + 1.0);
    size.lt(0.625).select(small, large).copysign(x)
}

/// e^|x| / 2, and infinity where the hyperbolic functions are.
fn half_exp<'a>(formula: &'a Formula, format: &Format, size: Value<'a>) -> Value<'a> {
    // In two steps, because 2^n may be out of range where half of it is not. The limit is slightly
    // beyond the point where the result is infinity.
    let limit = format.pick(89.6, 710.6);
    exp_in_range(formula, format, size.at_most(limit), -2) * 2.0
}

/// Hyperbolic sine.
pub(super) fn sinh<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let size = x.abs();
    let small = odd_polynomial(formula, size, size * size, format.pick(SINH32, SINH64));
    let half = half_exp(formula, format, size);
    let large = half - half.like(0.25) / half;
    size.lt(1.0).select(small, large).copysign(x)
}

/// Hyperbolic cosine.
pub(super) fn cosh<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let half = half_exp(formula, format, x.abs());
    half + half.like(0.25) / half
}
