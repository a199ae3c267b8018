//! Reduction of angles: the distance from the nearest multiple of pi / 2, and that multiple.
//!
//! Up to a limit, a product with pi / 2 in parts is subtracted. Beyond it, the bits of 2 / pi that
//! are significant for the exponent of the angle are multiplied with its mantissa as integers
//! (Payne and Hanek): the product modulo 4 is correct for each float, and needs neither a table in
//! memory nor a call.

use super::exact::{fast_two_sum, product, two_sum};
use super::format::{DOUBLE, Format, SINGLE};
use super::formula::{Formula, Value};
use crate::ir::{F32, F64, I32, I64, U64};

/// An angle as `quadrant * pi / 2 + r + low`; only the last two bits of the quadrant are
/// significant.
pub(super) struct Angle<'a> {
    pub(super) quadrant: Value<'a>,
    pub(super) r: Value<'a>,
    pub(super) low: Option<Value<'a>>,
}

/// The bits of 2 / pi after the point.
const TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_6bab,
];

/// pi / 2 in two doubles.
const HALF_PI: [f64; 2] = [core::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
/// pi / 2 in parts of 33 bits, and the rest.
const HALF_PI_PARTS: [f64; 4] =
    [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32];
/// pi / 2 minus its first 33 bits.
const HALF_PI_REST: f64 = 6.077100506506192e-11;
/// pi / 2 in single precision parts.
const HALF_PI32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];

/// The size up to which single precision alone is accurate enough, with products that are not
/// rounded.
pub(super) const LIMIT32: f64 = 117_000.0;
/// The size up to which `n * HALF_PI_PARTS` is exact.
pub(super) const LIMIT64: f64 = 1_600_000.0;

/// Reduces a single angle below [`LIMIT32`], in single precision; products are not rounded.
pub(super) fn single<'a>(x: Value<'a>) -> Angle<'a> {
    let (count, quadrant) = SINGLE.round_product(x, core::f64::consts::FRAC_2_PI);
    let r = HALF_PI32.iter().fold(x, |r, part| count.neg_mul_add(*part, r));
    Angle { quadrant, r, low: None }
}

/// Reduces a single angle below [`LIMIT64`] in double precision.
pub(super) fn single_by_double<'a>(x: Value<'a>) -> Angle<'a> {
    let x = x.cast(F64);
    let (count, n) = DOUBLE.round_product(x, core::f64::consts::FRAC_2_PI);
    let r = count.neg_mul_add(HALF_PI_REST, count.neg_mul_add(HALF_PI_PARTS[0], x));
    Angle { quadrant: n.cast(I32), r, low: None }
}

/// Reduces a double angle below [`LIMIT64`].
pub(super) fn double<'a>(x: Value<'a>) -> Angle<'a> {
    let (count, quadrant) = DOUBLE.round_product(x, core::f64::consts::FRAC_2_PI);
    let [first, second, third, fourth] = HALF_PI_PARTS;
    // Both products are exact, and so is the first difference.
    let high = count.neg_mul_add(first, x);
    let (high, lost) = two_sum(high, -(count * second));
    let rest = (lost - count * third) - count * fourth;
    let (r, low) = fast_two_sum(high, rest);
    Angle { quadrant, r, low: Some(low) }
}

/// Reduces an angle of any size from 2^16 (single) or 2^20 (double) on: r is a double. For
/// infinities and NaN, the result is NaN.
pub(super) fn large<'a>(formula: &'a Formula, format: &Format, x: Value<'a>) -> Angle<'a> {
    let size = x.abs();
    let bits = size.bits().cast(U64);
    let exponent = (bits >> format.mantissa) - format.bias;
    let mantissa = (bits & ((1 << format.mantissa) - 1)) | (1 << format.mantissa);
    // Words of 32 bits, preceded by as many zeros as the mantissa has words: bit `start` is the
    // first one of the window.
    let limbs = format.pick(1, 2);
    let start = exponent + format.pick(7, 10);
    let mut words: Vec<Value<'a>> = (0..limbs)
        .map(|_| 0)
        .chain(TWO_OVER_PI.iter().take(format.pick(7, 38)).map(|word| i64::from(*word)))
        .map(|word| formula.int(U64, word))
        .collect();
    let (index, shift) = (start >> 5, start & 31);
    let count = 3 * limbs;
    for power in (0..format.pick(3, 6)).rev() {
        let step = 1usize << power;
        let chosen = (index & (step as i64)).ne(0);
        // The words that later steps may select.
        let needed = (count + step).min(words.len());
        words = (0..needed)
            .map(|at| match words.get(at + step) {
                Some(later) => chosen.select(*later, words[at]),
                None => words[at],
            })
            .collect();
    }
    let low_word = 0xffff_ffff;
    let window: Vec<Value<'a>> =
        (0..count).map(|at| ((((words[at] << 32) | words[at + 1]) << shift) >> 32) & low_word).collect();
    let (quadrant, r, low) =
        if format.is_double() { double_fraction(mantissa, &window) } else { single_fraction(mantissa, &window) };
    let negative = x.lt(0.0);
    let quadrant = if format.is_double() { quadrant } else { quadrant.cast(I32) };
    // 0, or NaN.
    let not_finite = (x * 0.0).cast(F64);
    let signed = |value: Value<'a>| negative.select(-value, value);
    Angle { quadrant: negative.select(-quadrant, quadrant), r: signed(r) + not_finite, low: low.map(signed) }
}

/// The 64 bits after the window's first two as a signed fraction, with the nearest multiple
/// subtracted.
fn quarter<'a>(fraction: Value<'a>) -> (Value<'a>, Value<'a>) {
    let quadrant = (fraction + (1 << 61)) >> 62;
    let rest = fraction - (quadrant << 62);
    (quadrant.cast(I64), rest.cast(I64))
}

fn single_fraction<'a>(mantissa: Value<'a>, window: &[Value<'a>]) -> (Value<'a>, Value<'a>, Option<Value<'a>>) {
    let product = ((mantissa * window[0]) << 32) + mantissa * window[1] + ((mantissa * window[2]) >> 32);
    let (quadrant, rest) = quarter(product);
    (quadrant, rest.cast(F64) * (HALF_PI[0] * 2f64.powi(-62)), None)
}

fn double_fraction<'a>(mantissa: Value<'a>, window: &[Value<'a>]) -> (Value<'a>, Value<'a>, Option<Value<'a>>) {
    let low_word = 0xffff_ffff;
    let (low_limb, high_limb) = (mantissa & low_word, mantissa >> 32);
    // The product of 53 and 192 bits, word by word from the end, modulo 2^192.
    let mut words = window.to_vec();
    let mut carry: Option<Value<'a>> = None;
    for word in words.iter_mut().rev() {
        let sum = carry.map_or(low_limb * *word, |carry| low_limb * *word + carry);
        *word = sum & low_word;
        carry = Some(sum >> 32);
    }
    let mut carry: Option<Value<'a>> = None;
    for at in (1..window.len()).rev() {
        let sum = high_limb * window[at] + words[at - 1];
        let sum = carry.map_or(sum, |carry| sum + carry);
        words[at - 1] = sum & low_word;
        carry = Some(sum >> 32);
    }
    let (quadrant, rest) = quarter((words[0] << 32) | words[1]);
    // rest * 2^64 + lower, as two doubles.
    let lower = ((words[2] << 32) | words[3]) >> 11;
    let high = rest.cast(F64);
    let lost = (rest - high.cast(I64)).cast(F64) + lower.cast(I64).cast(F64) * 2f64.powi(-53);
    let (high, lost) = fast_two_sum(high * 2f64.powi(-62), lost * 2f64.powi(-62));
    let (r, error) = product(high, high.like(HALF_PI[0]));
    let low = error + (high * HALF_PI[1] + lost * HALF_PI[0]);
    let (r, low) = fast_two_sum(r, low);
    (quadrant, r, Some(low))
}

/// Converts a double angle to single precision.
pub(super) fn to_single(angle: Angle<'_>) -> Angle<'_> {
    Angle { r: angle.r.cast(F32), ..angle }
}
