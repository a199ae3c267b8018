use core::fmt;

use super::Element;
use crate::value::DataType;

/// A float of 16 bits (IEEE 754 binary16), an element of tensors of `float16`. A storage type:
/// convert to `f32` for arithmetic.
///
/// ```
/// use kernpack::{F16, Tensor};
///
/// let weights = Tensor::from_vec([0.5f32, -2.0].map(F16::from).to_vec(), &[2])?;
/// assert_eq!(weights.dtype().to_string(), "float16");
/// let sum: f32 = weights.view::<F16>()?.iter().map(f32::from).sum();
/// assert_eq!(sum, -1.5);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F16(u16);

/// The upper half of a float of 32 bits, an element of tensors of `bfloat16`. A storage type:
/// convert to `f32` for arithmetic.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct BF16(u16);

macro_rules! half {
    ($($ty:ident $dtype:ident $name:literal $widen:ident $narrow:ident)*) => {$(
        // SAFETY: every pattern of 16 bits is a number or NaN.
        unsafe impl Element for $ty {
            const DTYPE: DataType = DataType::$dtype;
            const NAME: &'static str = $name;
            const ZERO: Self = Self(0);
        }

        impl $ty {
            /// Creates the number with these bits.
            #[inline]
            pub const fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            /// Returns the bits.
            #[inline]
            pub const fn to_bits(self) -> u16 {
                self.0
            }
        }

        /// Rounds to the nearest value, ties to even.
        impl From<f32> for $ty {
            #[inline]
            fn from(float: f32) -> Self {
                Self($narrow(float))
            }
        }

        impl From<$ty> for f32 {
            #[inline]
            fn from(half: $ty) -> Self {
                $widen(half.0)
            }
        }

        impl PartialEq for $ty {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                f32::from(*self) == f32::from(*other)
            }
        }

        impl PartialOrd for $ty {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                f32::from(*self).partial_cmp(&f32::from(*other))
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f32::from(*self).fmt(f)
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&f32::from(*self), f)
            }
        }
    )*};
}
half!(F16 FLOAT16 "float16" widen_f16 narrow_f16 BF16 BFLOAT16 "bfloat16" widen_bf16 narrow_bf16);

#[inline]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline]
fn narrow_bf16(float: f32) -> u16 {
    let bits = float.to_bits();
    if float.is_nan() {
        // Quiet, so that it is still NaN after the lower half is cut off.
        return (bits >> 16) as u16 | 0x40;
    }
    let round = 0x7fff + (bits >> 16 & 1);
    ((bits + round) >> 16) as u16
}

#[inline]
fn widen_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0x1f => 0x7f80_0000 | fraction << 13,
        // A subnormal number is a multiple of 2^-24.
        0 => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        exponent => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[inline]
fn narrow_f16(float: f32) -> u16 {
    let bits = float.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | (magnitude >> 13 & 0x3ff) as u16;
    }
    // 65520 and larger values are nearer to infinity.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Below the normal numbers: a multiple of 2^-24. Adding 0.5 rounds it to its last bits.
        let sum = f32::from_bits(magnitude) + 0.5;
        return sign | (sum.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let round = 0xfff + (magnitude >> 13 & 1);
    sign | ((magnitude + round - (112 << 23)) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_come_back() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f32::from(F16(bits)), f32::from(BF16(bits)));
            if half.is_nan() {
                assert!(f32::from(F16::from(half)).is_nan());
            } else {
                assert_eq!(F16::from(half).0, bits, "{half}");
            }
            if brain.is_nan() {
                assert!(f32::from(BF16::from(brain)).is_nan());
            } else {
                assert_eq!(BF16::from(brain).0, bits, "{brain}");
            }
        }
    }

    #[test]
    fn what_lies_between_is_rounded() {
        for (float, expected) in [
            (0.1, 0x2e66),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (-1e-8, 0x8000),
            (6e-8, 0x0001),
            (2f32.powi(-25), 0x0000),
            (2f32.powi(-25) * 1.5, 0x0001),
            (6.103e-5, 0x0400),
        ] {
            assert_eq!(F16::from(float).0, expected, "{float}");
        }
        for (float, expected) in [
            (0.1, 0x3dcd),
            (-2.5, 0xc020),
            (1.0 + 1.0 / 256.0, 0x3f80),
            (1.0 + 3.0 / 256.0, 0x3f82),
            (65504.0, 0x4780),
            (1e30, 0x714a),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
            (-0.0, 0x8000),
        ] {
            assert_eq!(BF16::from(float).0, expected, "{float}");
        }
        assert_eq!(
            (F16::from(0.5).to_string(), format!("{:?}", BF16::from(-2.0))),
            ("0.5".to_owned(), "-2.0".to_owned())
        );
        assert!(F16::from(1.0) < F16::from(2.0) && F16::from(f32::NAN) != F16::from(f32::NAN));
    }
}
