//! Exact sums and products of two floats: the rounded result and its rounding error.

use super::formula::Value;

/// `a + b`, if a is not smaller than b in magnitude, or is 0.
pub(super) fn fast_two_sum<'a>(a: Value<'a>, b: Value<'a>) -> (Value<'a>, Value<'a>) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// `a + b`.
pub(super) fn two_sum<'a>(a: Value<'a>, b: Value<'a>) -> (Value<'a>, Value<'a>) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// `a * b` of doubles far from the ends of the range.
pub(super) fn product<'a>(a: Value<'a>, b: Value<'a>) -> (Value<'a>, Value<'a>) {
    let product = a * b;
    if a.formula().has_fma() {
        return (product, a.mul_add(b, -product));
    }
    // Halves (Dekker, Veltkamp), by masks: the upper ones have 26 bits, the lower ones 27 bits.
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    let error = ((a_high * b_high - product) + a_high * b_low) + a_low * b_high;
    (product, error + a_low * b_low)
}

fn halves<'a>(a: Value<'a>) -> (Value<'a>, Value<'a>) {
    let high = (a.bits() & -0x800_0000).float_of_bits();
    (high, a - high)
}
