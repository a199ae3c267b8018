use core::ops::{Add, Mul, Neg, Sub};

use super::Element;
use crate::value::{
    Any, AnyView, Arg, DataType, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, pair, sequence,
};

/// A complex number, an element of tensors of `complex64` (of `f32`) and `complex128` (of `f64`).
///
/// ```
/// use kernpack::{Complex, Tensor};
///
/// let signal = Tensor::from_vec(vec![Complex::new(3.0f32, 4.0), Complex::from(1.0)], &[2])?;
/// assert_eq!(signal.dtype().to_string(), "complex64");
/// let first = signal.view::<Complex<f32>>()?.to_vec()[0];
/// assert_eq!((first.norm(), first * first.conj()), (5.0, Complex::new(25.0, 0.0)));
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

impl<T> Complex<T> {
    /// Creates a number from its parts.
    #[inline]
    pub const fn new(re: T, im: T) -> Self {
        Self { re, im }
    }
}

macro_rules! complex {
    ($($part:ident $bits:literal $name:literal)*) => {$(
        // SAFETY: two adjacent floats, the layout of DLPack's complex numbers.
        unsafe impl Element for Complex<$part> {
            const DTYPE: DataType = DataType::scalar(crate::abi::dtype_code::COMPLEX, $bits);
            const NAME: &'static str = $name;
            const ZERO: Self = Self::new(0.0, 0.0);
        }

        impl Schema for Complex<$part> {
            const TYPE: TypeSchema = TypeSchema::new("complex");
        }

        impl<'a> FromAny<'a> for Complex<$part> {
            /// A number, or a pair of real and imaginary part.
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                let Ok(parts) = sequence(value) else { return $part::from_any(value).map(Self::from) };
                match parts.views() {
                    [re, im] => Ok(Self { re: $part::from_any(re)?, im: $part::from_any(im)? }),
                    _ => Err(Mismatch::TYPE),
                }
            }
        }

        impl IntoAny for Complex<$part> {
            fn into_any(self) -> Any {
                pair([self.re.into_any(), self.im.into_any()])
            }
        }

        impl ToArg for Complex<$part> {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.into_any())
            }
        }

        impl Complex<$part> {
            /// Returns the complex conjugate.
            #[inline]
            pub const fn conj(self) -> Self {
                Self::new(self.re, -self.im)
            }

            /// Returns the absolute value.
            #[inline]
            pub fn norm(self) -> $part {
                self.re.hypot(self.im)
            }
        }

        impl From<$part> for Complex<$part> {
            #[inline]
            fn from(re: $part) -> Self {
                Self::new(re, 0.0)
            }
        }

        impl Add for Complex<$part> {
            type Output = Self;

            #[inline]
            fn add(self, other: Self) -> Self {
                Self::new(self.re + other.re, self.im + other.im)
            }
        }

        impl Sub for Complex<$part> {
            type Output = Self;

            #[inline]
            fn sub(self, other: Self) -> Self {
                Self::new(self.re - other.re, self.im - other.im)
            }
        }

        impl Mul for Complex<$part> {
            type Output = Self;

            #[inline]
            fn mul(self, other: Self) -> Self {
                Self::new(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
            }
        }

        impl Mul<$part> for Complex<$part> {
            type Output = Self;

            #[inline]
            fn mul(self, factor: $part) -> Self {
                Self::new(self.re * factor, self.im * factor)
            }
        }

        impl Neg for Complex<$part> {
            type Output = Self;

            #[inline]
            fn neg(self) -> Self {
                Self::new(-self.re, -self.im)
            }
        }
    )*};
}
complex!(f32 64 "complex64" f64 128 "complex128");
