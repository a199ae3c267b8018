//! Conversion of numbers to floats of 16 bits or fewer, as defined by DLPack: round to nearest,
//! ties to even.

use crate::abi::dtype_code;

/// A float format with a sign bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloatFormat {
    pub(super) name: &'static str,
    /// Size of the parameter in bytes.
    pub(super) size: usize,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

/// The meaning of the highest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// Numbers, and NaN if all bits are 1 (`fn`).
    Finite,
    /// Numbers only; negative zero is NaN (`fnuz`).
    Unsigned,
}

const FORMATS: [(u8, u8, FloatFormat); 9] = {
    use Special::{Finite, Ieee, Unsigned};
    #[inline]
    const fn format(name: &'static str, size: usize, parts: [u32; 2], bias: i32, special: Special) -> FloatFormat {
        FloatFormat { name, size, exponent: parts[0], mantissa: parts[1], bias, special }
    }
    [
        (dtype_code::FLOAT, 16, format("float16", 2, [5, 10], 15, Ieee)),
        (dtype_code::BFLOAT, 16, format("bfloat16", 2, [8, 7], 127, Ieee)),
        (dtype_code::FLOAT8_E3M4, 8, format("float8_e3m4", 1, [3, 4], 3, Ieee)),
        (dtype_code::FLOAT8_E4M3, 8, format("float8_e4m3", 1, [4, 3], 7, Ieee)),
        (dtype_code::FLOAT8_E4M3B11FNUZ, 8, format("float8_e4m3b11fnuz", 1, [4, 3], 11, Unsigned)),
        (dtype_code::FLOAT8_E4M3FN, 8, format("float8_e4m3fn", 1, [4, 3], 7, Finite)),
        (dtype_code::FLOAT8_E4M3FNUZ, 8, format("float8_e4m3fnuz", 1, [4, 3], 8, Unsigned)),
        (dtype_code::FLOAT8_E5M2, 8, format("float8_e5m2", 1, [5, 2], 15, Ieee)),
        (dtype_code::FLOAT8_E5M2FNUZ, 8, format("float8_e5m2fnuz", 1, [5, 2], 16, Unsigned)),
    ]
};

impl FloatFormat {
    /// Returns the format with a type code and a number of bits.
    #[inline]
    pub(super) fn of(code: u8, bits: u8) -> Option<&'static Self> {
        FORMATS.iter().find(|format| (format.0, format.1) == (code, bits)).map(|format| &format.2)
    }

    /// Returns the bits of the nearest number; `None` if a finite number is too large for the
    /// format, or for infinity if the format does not have it.
    #[inline]
    pub(super) fn bits(&self, value: f64) -> Option<u64> {
        let sign = u64::from(value.is_sign_negative()) << (self.exponent + self.mantissa);
        let top = (1u64 << self.exponent) - 1;
        if value.is_nan() {
            return Some(match self.special {
                Special::Ieee => sign | (top << self.mantissa) | (1 << (self.mantissa - 1)),
                Special::Finite => sign | ((1 << (self.exponent + self.mantissa)) - 1),
                Special::Unsigned => 1 << (self.exponent + self.mantissa),
            });
        }
        if value.is_infinite() {
            return (self.special == Special::Ieee).then_some(sign | (top << self.mantissa));
        }
        let (exponent, significand) = parts(value);
        if significand == 0 {
            return Some(if self.special == Special::Unsigned { 0 } else { sign });
        }
        // `value` is `significand * 2^exponent`, with the leading bit of the significand at 52
        // unless it is subnormal in f64.
        let leading = 63 - significand.leading_zeros() as i32 + exponent;
        let lowest = (leading.max(1 - self.bias)) - self.mantissa as i32;
        let rounded = round(significand, lowest - exponent);
        // Rounding up to the next exponent carries into the exponent's bits automatically.
        let magnitude = if leading < 1 - self.bias {
            rounded
        } else {
            rounded + (((leading + self.bias - 1) as u64) << self.mantissa)
        };
        let largest = match self.special {
            Special::Ieee => (top << self.mantissa) - 1,
            Special::Finite => (1 << (self.exponent + self.mantissa)) - 2,
            Special::Unsigned => (1 << (self.exponent + self.mantissa)) - 1,
        };
        if magnitude > largest {
            return None;
        }
        Some(if magnitude == 0 && self.special == Special::Unsigned { 0 } else { sign | magnitude })
    }
}

/// Returns exponent and significand: the absolute value is `significand * 2^exponent`.
#[inline]
fn parts(value: f64) -> (i32, u64) {
    let bits = value.to_bits();
    let (exponent, mantissa) = (((bits >> 52) & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 { (-1074, mantissa) } else { (exponent - 1075, mantissa | (1 << 52)) }
}

/// Returns `significand / 2^shift`, rounded to nearest, ties to even.
#[inline]
fn round(significand: u64, shift: i32) -> u64 {
    match shift {
        ..=0 => significand << shift.unsigned_abs().min(63),
        1..=63 => {
            let (quotient, rest) = (significand >> shift, significand & ((1 << shift) - 1));
            let half = 1 << (shift - 1);
            quotient + u64::from(rest > half || (rest == half && quotient & 1 == 1))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_numbers() {
        let inf = f64::INFINITY;
        #[rustfmt::skip]
        let rows: &[(u8, u8, f64, Option<u64>)] = &[
            (dtype_code::FLOAT, 16, 1.0, Some(0x3c00)), (dtype_code::FLOAT, 16, -2.5, Some(0xc100)),
            (dtype_code::FLOAT, 16, 65504.0, Some(0x7bff)), (dtype_code::FLOAT, 16, 65519.9, Some(0x7bff)),
            (dtype_code::FLOAT, 16, 65520.0, None), (dtype_code::FLOAT, 16, inf, Some(0x7c00)),
            (dtype_code::FLOAT, 16, -inf, Some(0xfc00)), (dtype_code::FLOAT, 16, -0.0, Some(0x8000)),
            (dtype_code::FLOAT, 16, 5.960464477539063e-8, Some(1)), (dtype_code::FLOAT, 16, 2.98e-8, Some(0)),
            (dtype_code::FLOAT, 16, 8.940696716308594e-8, Some(2)), (dtype_code::FLOAT, 16, 6.103515625e-5, Some(0x400)),
            (dtype_code::FLOAT, 16, 2049.0, Some(0x6800)), (dtype_code::FLOAT, 16, 2051.0, Some(0x6802)),
            (dtype_code::FLOAT, 16, 5e-324, Some(0)), (dtype_code::FLOAT, 16, f64::NAN, Some(0x7e00)),
            (dtype_code::BFLOAT, 16, 1.0, Some(0x3f80)), (dtype_code::BFLOAT, 16, 3.15, Some(0x404a)),
            (dtype_code::BFLOAT, 16, 1e39, None), (dtype_code::BFLOAT, 16, 1e-40, Some(0x0001)),
            (dtype_code::FLOAT8_E4M3FN, 8, 448.0, Some(0x7e)), (dtype_code::FLOAT8_E4M3FN, 8, 464.0, Some(0x7e)),
            (dtype_code::FLOAT8_E4M3FN, 8, 465.0, None), (dtype_code::FLOAT8_E4M3FN, 8, inf, None),
            (dtype_code::FLOAT8_E4M3FN, 8, f64::NAN, Some(0x7f)), (dtype_code::FLOAT8_E4M3FN, 8, 1.0, Some(0x38)),
            (dtype_code::FLOAT8_E4M3, 8, 240.0, Some(0x77)), (dtype_code::FLOAT8_E4M3, 8, 256.0, None),
            (dtype_code::FLOAT8_E4M3FNUZ, 8, 240.0, Some(0x7f)), (dtype_code::FLOAT8_E4M3FNUZ, 8, -0.0, Some(0)),
            (dtype_code::FLOAT8_E4M3FNUZ, 8, f64::NAN, Some(0x80)), (dtype_code::FLOAT8_E4M3FNUZ, 8, 1.0, Some(0x40)),
            (dtype_code::FLOAT8_E5M2, 8, 57344.0, Some(0x7b)), (dtype_code::FLOAT8_E5M2, 8, 1.0, Some(0x3c)),
            (dtype_code::FLOAT8_E5M2, 8, inf, Some(0x7c)), (dtype_code::FLOAT8_E5M2FNUZ, 8, 57344.0, Some(0x7f)),
            (dtype_code::FLOAT8_E3M4, 8, 15.5, Some(0x6f)), (dtype_code::FLOAT8_E4M3B11FNUZ, 8, 30.0, Some(0x7f)),
        ];
        for &(code, bits, value, expected) in rows {
            let format = FloatFormat::of(code, bits).unwrap();
            assert_eq!(format.bits(value), expected, "{value} as {}", format.name);
        }
        assert_eq!(FloatFormat::of(dtype_code::FLOAT, 8), None);
    }

    /// Compares with the compiler's own conversion for a format with the same layout: bfloat16 is
    /// the upper half of f32.
    #[test]
    fn wide_bfloat16_is_exact() {
        let format = FloatFormat::of(dtype_code::BFLOAT, 16).unwrap();
        for upper in (0..=0xffff_u32).filter(|upper| upper & 0x7f80 != 0x7f80) {
            let value = f32::from_bits(upper << 16);
            assert_eq!(format.bits(f64::from(value)), Some(u64::from(upper)), "{value}");
        }
    }
}
