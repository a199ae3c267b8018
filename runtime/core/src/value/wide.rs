//! Integers of 128 bits, and integers that are not 0.

use core::num::NonZero;

use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, python_number, scalar};
use crate::abi::type_index;
use crate::embedded::big_int;

/// The three lowest words of an integer, least significant first.
type Words = [u64; 3];

/// Returns the words of an integer, extended by its sign; `None` if it has more.
fn words(value: &AnyView<'_>) -> Result<Option<Words>, Mismatch> {
    match value.type_index() {
        type_index::BIG_INT => {}
        type_index::INT | type_index::BOOL => {
            let word = i64::from_any(value)?;
            let sign = (word >> 63).cast_unsigned();
            return Ok(Some([word.cast_unsigned(), sign, sign]));
        }
        _ => return python_number::of(value, false).map_or(Err(Mismatch::TYPE), |number| words(number.as_view())),
    }
    // SAFETY: the type index says that the payload is a big integer; its words live as long as the
    // view.
    let words = unsafe { big_int::content(value.as_raw()).as_slice() }.as_chunks().0;
    let sign = words.last().map_or(0, |last| i64::from_ne_bytes(*last) >> 63).cast_unsigned();
    if words.len() > 3 {
        return Ok(None);
    }
    let mut extended = [sign; 3];
    for (to, from) in extended.iter_mut().zip(words) {
        *to = u64::from_ne_bytes(*from);
    }
    Ok(Some(extended))
}

/// The lowest 128 bits.
fn low(words: Words) -> u128 {
    u128::from(words[1]) << 64 | u128::from(words[0])
}

#[cold]
fn out_of_range(name: &str, min: &str, max: &str) -> Mismatch {
    Mismatch::range(format!("the integer is out of range for {name} ({min} to {max})"))
}

macro_rules! wide {
    ($($type:ident: $min:literal to $max:literal, $sign:expr;)*) => {$(
        impl Schema for $type {
            const TYPE: TypeSchema = TypeSchema::new("int");
        }

        impl<'a> FromAny<'a> for $type {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                match words(value)? {
                    Some(words) if words[2] == ($sign)(words[1]) => Ok(low(words) as Self),
                    _ => Err(out_of_range(stringify!($type), $min, $max)),
                }
            }
        }

        /// # Panics
        /// Panics for a number beyond 64 bits if the process's implementation of the ABI is older
        /// than 0.1.15 and does not have such integers; a packed function's guard converts the
        /// panic to an error.
        impl IntoAny for $type {
            fn into_any(self) -> Any {
                if let Ok(small) = i64::try_from(self) {
                    return small.into_any();
                }
                scalar::require_big_int(&self);
                let high = (self >> 64) as u64;
                let words = [self as u64, high, ($sign)(high)].map(u64::to_ne_bytes);
                // Whole words are always valid content.
                // SAFETY: the value is new.
                big_int::from_words(words.as_flattened()).map_or(Any::NONE, |value| unsafe { Any::from_raw(value) })
            }
        }

        impl ToArg for $type {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.into_any())
            }
        }
    )*};
}
// With the third word, which repeats the sign.
wide! {
    i128: "-170141183460469231731687303715884105728" to "170141183460469231731687303715884105727",
        |high: u64| (high.cast_signed() >> 63).cast_unsigned();
    u128: "0" to "340282366920938463463374607431768211455", |_: u64| 0;
}

#[cold]
fn zero() -> Mismatch {
    Mismatch::value("expected a number other than 0, got 0".to_owned())
}

macro_rules! nonzero {
    ($($type:ident)*) => {$(
        impl Schema for NonZero<$type> {
            const TYPE: TypeSchema = <$type>::TYPE;
            const IS_UNSIGNED: bool = <$type>::IS_UNSIGNED;
        }

        impl<'a> FromAny<'a> for NonZero<$type> {
            #[inline]
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                Self::new(<$type>::from_any(value)?).ok_or_else(zero)
            }
        }

        impl IntoAny for NonZero<$type> {
            #[inline]
            fn into_any(self) -> Any {
                self.get().into_any()
            }
        }

        impl ToArg for NonZero<$type> {
            #[inline]
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.get().into_any())
            }
        }
    )*};
}
nonzero!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
