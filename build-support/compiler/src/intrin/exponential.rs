//! exp, exp2, expm1, sigmoid: `2^n (1 + p(r))` with the integer n nearest to x / ln 2.

use super::format::Format;
use super::formula::{Formula, Value};

const EXP32: &[f64] =
    &[0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.008369168266654015, 0.001383797382004559];
const EXP64: &[f64] = &[
    0.5,
    0.16666666666666688,
    0.041666666666666824,
    0.00833333333331389,
    0.001388888888877781,
    0.00019841269903387286,
    2.4801587559744807e-05,
    2.7557228652155732e-06,
    2.75570670890454e-07,
    2.5113946864398713e-08,
    2.0977980516343804e-09,
];
const EXPM1_32: &[f64] = &[
    0.5,
    0.16666635870933533,
    0.041666511446237564,
    0.008341509848833084,
    0.0013930543791502714,
    0.00015045910549815744,
];
const EXPM1_64: &[f64] = &[
    0.5,
    0.16666666666666677,
    0.04166666666666669,
    0.008333333333321773,
    0.0013888888888886474,
    0.0001984126988534767,
    2.480158729573822e-05,
    2.755723291438751e-06,
    2.755725389135369e-07,
    2.5119559502944987e-08,
    2.0952446736399167e-09,
];
const EXP2_32: &[f64] = &[
    0.6931472420692444,
    0.24022655189037323,
    0.05550272762775421,
    0.009617065079510212,
    0.0013417747104540467,
    0.00015823870489839464,
];
const EXP2_64: &[f64] = &[
    core::f64::consts::LN_2,
    0.2402265069591007,
    0.05550410866482338,
    0.009618129107630227,
    0.0013333558146033156,
    0.00015403530388903008,
    1.5252734167199239e-05,
    1.3215491307332297e-06,
    1.0177932162027413e-07,
    7.052964103689291e-09,
    4.473334916261742e-10,
    2.8698996016463725e-11,
];

const LOG2_E: f64 = core::f64::consts::LOG2_E;

/// x = n ln 2 + r + low: n as an integer and as a float, r, and its error.
struct Reduced<'a> {
    n: Value<'a>,
    count: Value<'a>,
    r: Value<'a>,
    low: Value<'a>,
}

fn reduce<'a>(format: &Format, x: Value<'a>) -> Reduced<'a> {
    let (count, n) = format.round_product(x, LOG2_E);
    let [high_part, low_part] = format.ln2;
    // These products are exact.
    let high = count.neg_mul_add(high_part, x);
    let r = count.neg_mul_add(low_part, high);
    let low = count.neg_mul_add(low_part, high - r);
    Reduced { n, count, r, low }
}

/// e^x = 2^n (1 + p): n as an integer and as a float, p.
fn parts<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> (Value<'a>, Value<'a>, Value<'a>) {
    let Reduced { n, count, r, low } = reduce(format, x);
    let tail = formula.polynomial(r, format.pick(EXP32, EXP64));
    // In double precision, and where products are rounded, r alone is not accurate enough.
    let first = if format.is_double() || !formula.has_fma() { (r * r).mul_add(tail, low) } else { r * r * tail };
    (n, count, r + first)
}

/// e^x.
pub(super) fn exp<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let limit = format.pick(89.0, 710.0);
    exp_below(formula, format, x.at_most(limit))
}

/// e^x for x up to the point where it is infinity.
fn exp_below<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let (n, count, p) = parts(formula, format, x.at_least(format.pick(-104.0, -746.0)));
    format.scale(p + 1.0, n, count)
}

/// e^x * 2^extra where neither is out of range: neither infinite nor denormal.
pub(super) fn exp_in_range<'a>(formula: &'a Formula, format: &Format, x: Value<'a>, extra: i64) -> Value<'a> {
    let (n, _, p) = parts(formula, format, x);
    let n = if extra == 0 { n } else { n + extra };
    (p + 1.0) * format.power_of_two(n)
}

/// e^x - 1 in single precision with fused products, where 2^n is in range.
pub(super) fn expm1_in_range<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let Reduced { n, r, .. } = reduce(format, x);
    // Near 0 only the difference remains: the polynomial is fitted for it.
    let p = (r * r).mul_add(formula.polynomial(r, EXPM1_32), r);
    let power = format.power_of_two(n);
    p.mul_add(power, power - 1.0)
}

/// e^(x + low), for a low part that is far smaller than x.
pub(super) fn exp_of_sum<'a>(formula: &'a Formula, format: &Format, x: Value<'a>, low: Value<'a>) -> Value<'a> {
    let Reduced { n, count, r, low: lost } = reduce(format, x);
    let p = r + r * r * formula.polynomial(r, format.pick(EXP32, EXP64));
    let low = lost + low;
    // The derivative is the function itself.
    format.scale((p + p.mul_add(low, low)) + 1.0, n, count)
}

/// 2^x.
pub(super) fn exp2<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let (high, low) = format.pick((129.0, -151.0), (1025.0, -1076.0));
    let x = x.at_most(high).at_least(low);
    let (count, n) = format.round(x);
    let r = x - count;
    let p = r * formula.polynomial(r, format.pick(EXP2_32, EXP2_64));
    format.scale(p + 1.0, n, count)
}

/// e^x - 1.
pub(super) fn expm1<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let (high, low) = format.pick((89.0, -20.0), (710.0, -40.0));
    let Reduced { n, r, low, .. } = reduce(format, x.at_most(high).at_least(low));
    let tail = formula.polynomial(r, format.pick(EXPM1_32, EXPM1_64));
    let p = r + (r * r).mul_add(tail, low.mul_add(r, low));
    // Computes 2^n (p + 1) - 1 through half of it, because 2^n itself may be out of range.
    let half = format.power_of_two(n - 1);
    let sum = p.mul_add(half, half - 0.5);
    // Restores the sign of x, which a zero has lost.
    (sum + sum).copysign(x)
}

/// 1 / (1 + e^-x).
pub(super) fn sigmoid<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    if !format.is_double() {
        // The sum of a large power and 1 is the power, as long as it is finite.
        let t = exp_below(formula, format, x.at_most(88.0));
        return t / (t + 1.0);
    }
    let t = exp(formula, format, -x.abs());
    // The sum is not exact; the quotient is corrected by the error.
    let sum = t + 1.0;
    let lost = t - (sum - 1.0);
    let quotient = x.ge(0.0).select(1.0, t) / sum;
    quotient - quotient * lost
}
