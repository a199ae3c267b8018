//! log, log2, log10, log1p: `x = 2^e (1 + f)` with 1 + f between the roots of 1/2 and 2.

use super::format::Format;
use super::formula::{Formula, Value};

/// `(ln(1 + f) - f + f^2 / 2) / f^3`.
const LOG32: &[f64] = &[
    0.3333331346511841,
    -0.2500016689300537,
    0.20002223551273346,
    -0.16659359633922577,
    0.14209508895874023,
    -0.12549805641174316,
    0.12105295062065125,
    -0.10883848369121552,
    0.052855707705020905,
];
/// `(ln((1 + s) / (1 - s)) - 2 s) / s^3` in s^2, for s = f / (2 + f).
const LOG64: &[f64] = &[
    0.6666666666666734,
    0.3999999999941664,
    0.28571428742028,
    0.22222198605092672,
    0.18183562848238088,
    0.15314084948651407,
    0.14795631969507841,
];

/// The base of a logarithm: 1 / ln base and log_base 2, each in two parts. Products of the first
/// parts with 12 (27) bits and with exponents are exact.
struct Base {
    reciprocal: [f64; 2],
    of_two: [f64; 2],
}

fn base_two(format: &Format) -> Base {
    let reciprocal =
        format.pick([1.44287109375, -0.00017605285393074155], [1.4426950365304947, 4.3584687174185184e-09]);
    Base { reciprocal, of_two: [1.0, 0.0] }
}

fn base_ten(format: &Format) -> Base {
    let reciprocal = format.pick([0.434326171875, -3.168997136526741e-05], [0.434294480830431, 1.0728208431540585e-09]);
    let of_two = format.pick([0.301025390625, 4.605039066518657e-06], [0.3010299956640665, -8.532344317057107e-14]);
    Base { reciprocal, of_two }
}

/// The bits of sqrt(1/2).
fn root_bits(format: &Format) -> i64 {
    format.pick(0x3f35_04f3, 0x3fe6_a09e_667f_3bcd)
}

/// For a normal `x > 0`: e as an integer, and 1 + f.
fn split<'a>(format: &Format, x: Value<'a>) -> (Value<'a>, Value<'a>) {
    let bits = x.bits();
    let e = (bits - root_bits(format)) >> format.mantissa;
    (e, (bits - (e << format.mantissa)).float_of_bits())
}

/// The same, also for denormals; e is a float, and f is without the 1.
pub(super) fn split_any<'a>(format: &Format, x: Value<'a>) -> (Value<'a>, Value<'a>) {
    let shift = format.mantissa + 2;
    let tiny = x.lt(format.smallest);
    let scaled = tiny.select(x * 2f64.powi(shift as i32), x);
    let (e, m) = split(format, scaled);
    let e = tiny.select(e - shift, e);
    (format.float_of_int(e), m - 1.0)
}

/// ln(1 + f) - f.
fn tail<'a>(formula: &'a Formula, format: &Format, f: Value<'a>, low: Option<Value<'a>>) -> Value<'a> {
    let square = f * f;
    if format.is_double() {
        let s = f / (f + 2.0);
        let z = s * s;
        let rest = z * formula.polynomial(z, LOG64);
        let half = square * 0.5;
        // f - (half - s (half + rest)): with the low part of e ln 2 inside.
        let inner = s * (half + rest);
        let inner = low.map_or(inner, |low| inner + low);
        return inner - half;
    }
    let cube = square * f;
    let first = match low {
        Some(low) => cube.mul_add(formula.polynomial(f, LOG32), low),
        None => cube * formula.polynomial(f, LOG32),
    };
    square.neg_mul_add(0.5, first)
}

/// The value of a logarithm where `x` is not positive and finite.
fn with_specials<'a>(x: Value<'a>, argument: Value<'a>, result: Value<'a>) -> Value<'a> {
    let usual = argument.gt(0.0).and(argument.lt(f64::INFINITY));
    let outside = argument.lt(0.0).select(f64::NAN, x);
    usual.select(result, argument.eq(0.0).select(f64::NEG_INFINITY, outside))
}

/// e ln 2 + ln(1 + f).
fn natural<'a>(formula: &'a Formula, format: &Format, e: Value<'a>, f: Value<'a>) -> Value<'a> {
    let [high, low] = format.ln2;
    let tail = tail(formula, format, f, Some(e * low));
    e.mul_add(high, f + tail)
}

/// Natural logarithm.
pub(super) fn log<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let (e, f) = split_any(format, x);
    with_specials(x, x, natural(formula, format, e, f))
}

/// Logarithm to another base: f in two parts, so that its product with 1 / ln base is nearly exact.
fn in_base<'a>(formula: &'a Formula, format: &Format, x: Value<'a>, base: &Base) -> Value<'a> {
    let (e, f) = split_any(format, x);
    let tail = tail(formula, format, f, None);
    let mask = format.pick(-0x1000, -0x800_0000);
    let top = (f.bits() & mask).float_of_bits();
    let [high, low] = base.reciprocal;
    let whole = f + tail;
    let rest = ((f - top) + tail).mul_add(high, whole * low);
    let rest = if base.of_two[1] == 0.0 { rest } else { e.mul_add(base.of_two[1], rest) };
    let exponent = if base.of_two[0] == 1.0 { e } else { e * base.of_two[0] };
    // The larger one first: the sum then loses nothing significant.
    let product = top * high;
    let sum = exponent + product;
    let lost = (exponent - sum) + product;
    let result = sum + (rest + lost);
    with_specials(x, x, result)
}

/// Logarithm to base 2.
pub(super) fn log2<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    in_base(formula, format, x, &base_two(format))
}

/// Logarithm to base 10.
pub(super) fn log10<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    in_base(formula, format, x, &base_ten(format))
}

/// ln(1 + x).
pub(super) fn log1p<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Value<'a> {
    let u = x + 1.0;
    // The rounding error of the sum.
    let lost = x.lt(1.0).select(x - (u - 1.0), (x - u) + 1.0);
    let (e, m) = split(format, u);
    let scaled = lost * format.power_of_two(-e);
    // It is irrelevant for large x, where the scale is out of range.
    let scaled = x.lt(2f64.powi(40)).select(scaled, x.like(0.0));
    let f = (m - 1.0) + scaled;
    let result = natural(formula, format, format.float_of_int(e), f);
    with_specials(x, u, result).copysign(x)
}
