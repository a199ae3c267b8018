//! Single and double precision: the properties of their bits that the formulas use.

use kernpack::DataType;

use super::formula::Value;
use crate::ir::{F32, F64, I32, I64};

/// A format of floating point numbers.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// The type.
    pub(super) dtype: DataType,
    /// The number of mantissa bits after the point.
    pub(super) mantissa: i64,
    /// The bias of exponents.
    pub(super) bias: i64,
    /// `1.5 * 2^mantissa`: a sum with it is rounded to an integer, which is in its low bits.
    pub(super) magic: f64,
    /// The bits of `magic`.
    pub(super) magic_bits: i64,
    /// ln 2 in two parts; products of the first one with exponents are exact.
    pub(super) ln2: [f64; 2],
    /// The smallest normal number.
    pub(super) smallest: f64,
}

/// Single precision.
pub(super) const SINGLE: Format = Format {
    dtype: F32,
    mantissa: 23,
    bias: 127,
    magic: 12_582_912.0,
    magic_bits: 0x4b40_0000,
    ln2: [0.693_145_751_953_125, 1.428_606_765_330_187e-6],
    smallest: 1.175_494_350_822_287_5e-38,
};

/// Double precision.
pub(super) const DOUBLE: Format = Format {
    dtype: F64,
    mantissa: 52,
    bias: 1023,
    magic: 6_755_399_441_055_744.0,
    magic_bits: 0x4338_0000_0000_0000,
    ln2: [0.693_147_180_601_954_5, -4.200_915_072_681_084_6e-11],
    smallest: f64::MIN_POSITIVE,
};

impl Format {
    /// Returns true for double precision.
    pub(super) fn is_double(&self) -> bool {
        self.mantissa == 52
    }

    /// Selects one of two constants.
    pub(super) fn pick<T>(&self, single: T, double: T) -> T {
        if self.is_double() { double } else { single }
    }

    /// The nearest integer of a small number, half to even: as a float, and as an integer.
    pub(super) fn round<'a>(&self, x: Value<'a>) -> (Value<'a>, Value<'a>) {
        if x.formula().reassociates() { self.by_instruction(x) } else { self.in_sum(x + self.magic) }
    }

    /// The integer nearest to `x * factor`.
    pub(super) fn round_product<'a>(&self, x: Value<'a>, factor: f64) -> (Value<'a>, Value<'a>) {
        if x.formula().reassociates() {
            self.by_instruction(x * factor)
        } else {
            self.in_sum(x.mul_add(factor, self.magic))
        }
    }

    fn in_sum<'a>(&self, sum: Value<'a>) -> (Value<'a>, Value<'a>) {
        (sum - self.magic, sum.bits() - self.magic_bits)
    }

    fn by_instruction<'a>(&self, x: Value<'a>) -> (Value<'a>, Value<'a>) {
        let rounded = x.round();
        (rounded, rounded.cast(self.pick(I32, I64)))
    }

    /// A small integer as a float.
    pub(super) fn float_of_int<'a>(&self, n: Value<'a>) -> Value<'a> {
        (n + self.magic_bits).float_of_bits() - self.magic
    }

    /// 2 to the power of an integer, where the result is a normal number.
    pub(super) fn power_of_two<'a>(&self, n: Value<'a>) -> Value<'a> {
        ((n + self.bias) << self.mantissa).float_of_bits()
    }

    /// `x * 2^n` for exponents up to twice the range, in two steps: the second one rounds to a
    /// denormal. `count`: the same n as a float.
    pub(super) fn scale<'a>(&self, x: Value<'a>, n: Value<'a>, count: Value<'a>) -> Value<'a> {
        if x.formula().scales() {
            return x.times_power_of_two(n, count);
        }
        let half = n >> 1;
        x * self.power_of_two(half) * self.power_of_two(n - half)
    }
}
