//! Integers outside the range of `i64`: hash, equality and order as keys and as fields of objects,
//! and decimal text.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, type_index};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, ANY_VIEW, Accepts, BOOL, FUNCTION, INT, OBJECT, Signature, Type, type_key};
use crate::definition::type_def::{Attr, BuiltinType, Index, Metadata};
use crate::embedded::{any_hash, big_int};
use crate::value::{Any, AnyView, IntoAny};
use crate::{Result, embedded, error};

/// The most digits that [`parse`] accepts: its time grows with their square, and this many take
/// about a second.
const MAX_DIGITS: usize = 1 << 20;

/// The largest power of ten in a word; its highest bit is set.
const POWER: u64 = 10_u64.pow(DIGITS as u32);
/// Digits in a number below [`POWER`].
const DIGITS: usize = 19;

/// A function or `None`, which C++ accepts as a function, too.
static NULLABLE_FUNCTION: Type =
    Type { schema: FUNCTION.schema, text: FUNCTION.text, accepts: Accepts::Optional(&FUNCTION) };

pub(crate) static BIG_INT: BuiltinType = BuiltinType {
    index: Index::fixed(type_index::BIG_INT),
    metadata: Some(Metadata { total_size: 32, creator: None, structural_kind: 0 }),
    attrs: &[
        ("__ffi_type_final__", Attr::Flag(true)),
        ("__any_hash__", Attr::Native(any_hash as *const c_void)),
        ("__any_equal__", Attr::Native(any_equal as *const c_void)),
        (
            "__ffi_eq__",
            Attr::Function(Builtin {
                name: "ffi.BigInt.__ffi_eq__",
                signature: Signature::Typed(&[&OBJECT, &OBJECT, &NULLABLE_FUNCTION], &BOOL),
                run: |args| {
                    let (left, right) = both(args.view(0), args.view(1))?;
                    Ok((left == right).into_any())
                },
            }),
        ),
        (
            "__ffi_compare__",
            Attr::Function(Builtin {
                name: "ffi.BigInt.__ffi_compare__",
                signature: Signature::Typed(&[&OBJECT, &OBJECT, &NULLABLE_FUNCTION], &INT),
                run: |args| {
                    let (left, right) = both(args.view(0), args.view(1))?;
                    Ok((compare(left, right) as i64).into_any())
                },
            }),
        ),
        (
            "__ffi_hash__",
            Attr::Function(Builtin {
                name: "ffi.BigInt.__ffi_hash__",
                signature: Signature::Typed(&[&OBJECT, &NULLABLE_FUNCTION], &INT),
                run: |args| Ok(hash(args.view(0))?.into_any()),
            }),
        ),
        (
            "__data_to_json__",
            Attr::Function(Builtin {
                name: "ffi.BigInt.__data_to_json__",
                signature: Signature::Typed(&[&ANY_VIEW], &ANY),
                run: |args| {
                    let text = to_decimal(words(args.view(0))?);
                    // An object even if it is short, as in the stock library.
                    // SAFETY: a new object; its only reference is transferred to the value.
                    Ok(unsafe { Any::from_object(embedded::new_string_object(text.as_bytes())) })
                },
            }),
        ),
        (
            "__data_from_json__",
            Attr::Function(Builtin {
                name: "ffi.BigInt.__data_from_json__",
                signature: Signature::Typed(&[&ANY_VIEW], &ANY),
                run: from_json,
            }),
        ),
    ],
    ..BuiltinType::new("ffi.BigInt")
};

#[inline]
unsafe extern "C" fn any_hash(value: *const TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the column: a valid value, borrowed for the call.
    let value = unsafe { AnyView::from_raw(*value) };
    hook_result(hash(&value).map(IntoAny::into_any))
}

#[inline]
unsafe extern "C" fn any_equal(left: *const TVMFFIAny, right: *const TVMFFIAny) -> TVMFFIAny {
    // SAFETY: the convention of the column: valid values, borrowed for the call.
    let (left, right) = unsafe { (AnyView::from_raw(*left), AnyView::from_raw(*right)) };
    hook_result(both(&left, &right).map(|(left, right)| (left == right).into_any()))
}

/// A native hook fails by returning its error.
#[inline]
fn hook_result(result: Result<Any>) -> TVMFFIAny {
    result.unwrap_or_else(IntoAny::into_any).into_raw()
}

/// The words of an integer, least significant first, as bytes.
#[inline]
fn words<'a>(value: &'a AnyView<'_>) -> Result<&'a [u8]> {
    match value.type_index() {
        // SAFETY: the view is valid and keeps the words alive; they are never changed.
        type_index::INT | type_index::BIG_INT => Ok(unsafe { big_int::content(value.as_raw()).as_slice() }),
        _ => Err(error!(TypeError, "Cannot treat type `{}` as type `BigInt`", type_key(value))),
    }
}

/// The words of two integers; the second one is checked first, as in the stock library.
#[inline]
fn both<'a>(left: &'a AnyView<'_>, right: &'a AnyView<'_>) -> Result<(&'a [u8], &'a [u8])> {
    let right = words(right)?;
    Ok((words(left)?, right))
}

#[inline]
fn hash(value: &AnyView<'_>) -> Result<i64> {
    let words = words(value)?;
    if value.type_index() == type_index::INT {
        return Ok(value.as_raw().bits().cast_signed());
    }
    Ok(any_hash::hash_bytes(words).cast_signed())
}

/// The word at an index; beyond the last one, the words of the sign.
#[inline]
fn word(words: &[[u8; 8]], index: usize) -> i64 {
    match words.get(index) {
        Some(word) => i64::from_ne_bytes(*word),
        None => words.last().map_or(0, |last| i64::from_ne_bytes(*last) >> 63),
    }
}

/// Compares the words of two integers.
#[inline]
pub(crate) fn compare(left: &[u8], right: &[u8]) -> core::cmp::Ordering {
    let (left, right) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
    let len = left.len().max(right.len());
    // The highest word, one beyond the last ones, has the sign; below it, words are unsigned.
    (0..len).rev().fold(word(left, len).cmp(&word(right, len)), |order, index| {
        order.then_with(|| word(left, index).cast_unsigned().cmp(&word(right, index).cast_unsigned()))
    })
}

/// Decimal digits of an integer.
#[inline]
pub(crate) fn to_decimal(words: &[u8]) -> String {
    let words = words.as_chunks::<8>().0;
    let negative = word(words, words.len()) < 0;
    let mut magnitude: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    if negative {
        negate(&mut magnitude);
    }
    // Groups of digits, least significant first.
    let mut groups = Vec::with_capacity(magnitude.len() + magnitude.len() / 32 + 1);
    while let Some(top) = magnitude.iter().rposition(|word| *word != 0) {
        magnitude.truncate(top + 1);
        groups.push(magnitude.iter_mut().rev().fold(0, |rest, word| {
            let (quotient, rest) = divide(rest, *word);
            *word = quotient;
            rest
        }));
    }
    let mut text = String::with_capacity(groups.len() * DIGITS + 1);
    if negative {
        text.push('-');
    }
    match groups.pop() {
        None => text.push('0'),
        Some(first) => text.push_str(&first.to_string()),
    }
    for group in groups.iter().rev() {
        let digits = group.to_string();
        text.extend(core::iter::repeat_n('0', DIGITS - digits.len()));
        text.push_str(&digits);
    }
    text
}

/// `high * 2^64 + low` divided by [`POWER`]: quotient and remainder; `high` is below the power.
/// (Two multiplications instead of a division: Moeller and Granlund, "Improved division by
/// invariant integers".)
#[inline]
fn divide(high: u64, low: u64) -> (u64, u64) {
    const RECIPROCAL: u64 = (u128::MAX / POWER as u128 - (1 << 64)) as u64;
    let estimate = u128::from(RECIPROCAL) * u128::from(high) + (u128::from(high) << 64 | u128::from(low));
    let mut quotient = ((estimate >> 64) as u64).wrapping_add(1);
    let mut rest = low.wrapping_sub(quotient.wrapping_mul(POWER));
    if rest > estimate as u64 {
        quotient = quotient.wrapping_sub(1);
        rest = rest.wrapping_add(POWER);
    }
    if rest >= POWER {
        quotient = quotient.wrapping_add(1);
        rest -= POWER;
    }
    (quotient, rest)
}

/// Negates in two's complement.
#[inline]
fn negate(words: &mut [u64]) {
    let mut carry = true;
    for word in words {
        (*word, carry) = (!*word).overflowing_add(u64::from(carry));
    }
}

#[inline]
fn from_json(args: &Arguments<'_>) -> Result<Any> {
    let value = args.view(0);
    if !matches!(value.type_index(), type_index::SMALL_STR | type_index::STR) {
        return Err(error!(TypeError, "Cannot treat type `{}` as type `str`", type_key(value)));
    }
    parse(args.bytes(0))
}

/// Parses an integer from decimal digits with an optional sign.
#[inline]
fn parse(text: &[u8]) -> Result<Any> {
    let invalid = || error!(ValueError, "Invalid decimal string for ffi.BigInt");
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    if digits.len() > MAX_DIGITS {
        let len = digits.len();
        return Err(error!(ValueError, "Invalid decimal string for ffi.BigInt: {len} digits, at most {MAX_DIGITS}"));
    }
    let mut words: Vec<u64> = Vec::with_capacity(digits.len() / DIGITS + 2);
    let (first, groups) = digits.split_at(digits.len() % DIGITS);
    for group in core::iter::once(first).chain(groups.chunks_exact(DIGITS)) {
        let mut carry = group.iter().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
        for word in &mut words {
            let sum = u128::from(*word) * u128::from(POWER) + u128::from(carry);
            (*word, carry) = (sum as u64, (sum >> 64) as u64);
        }
        if carry != 0 {
            words.push(carry);
        }
    }
    // Room for the sign.
    words.push(0);
    if negative {
        negate(&mut words);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // SAFETY: a new owned value.
    Ok(unsafe { Any::from_raw(big_int::from_words(&bytes)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: &str) {
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(to_decimal(words(value.as_view()).unwrap()), canonical);
        let fits = canonical.parse::<i64>().is_ok();
        assert_eq!(value.type_index(), if fits { type_index::INT } else { type_index::BIG_INT }, "{text}");
    }

    #[test]
    fn decimal_text_is_read_and_written() {
        for canonical in [
            "0",
            "7",
            "-7",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "-9223372036854775809",
            "10000000000000000000",
            "18446744073709551615",
            "18446744073709551616",
            "-18446744073709551616",
            "100000000000000000000000000000000000000",
            "-340282366920938463463374607431768211456",
            "340282366920938463463374607431768211455",
            "99999999999999999999999999999999999999999999999999999999999999999999999999999",
        ] {
            check(canonical, canonical);
        }
        for (text, canonical) in [("+5", "5"), ("-0", "0"), ("000", "0"), ("+00123", "123")] {
            check(text, canonical);
        }
        for len in 1..200 {
            let digits: String = (0..len).map(|i| char::from(b'1' + (i * i % 9) as u8)).collect();
            check(&digits, &digits);
            check(&format!("-{digits}"), &format!("-{digits}"));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "-", "+", "--1", "+-1", " 1", "1 ", "0x10", "1_000", "1.0", "\u{661}", "1\0"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "ValueError: Invalid decimal string for ffi.BigInt", "{text:?}");
        }
        let long = vec![b'1'; MAX_DIGITS + 1];
        let expected = "Invalid decimal string for ffi.BigInt: 1048577 digits, at most 1048576";
        assert_eq!(parse(&long).unwrap_err().message(), expected);
    }

    #[test]
    fn order_is_that_of_numbers() {
        let ascending = [
            "-340282366920938463463374607431768211456",
            "-18446744073709551617",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1",
            "0",
            "1",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "340282366920938463463374607431768211456",
        ];
        let values: Vec<Any> = ascending.iter().map(|text| parse(text.as_bytes()).unwrap()).collect();
        for (i, left) in values.iter().enumerate() {
            for (j, right) in values.iter().enumerate() {
                let (left, right) = (words(left.as_view()).unwrap(), words(right.as_view()).unwrap());
                assert_eq!(compare(left, right), i.cmp(&j), "{} and {}", ascending[i], ascending[j]);
            }
        }
    }

    #[test]
    fn hooks_compare_content() {
        let (left, right) =
            (parse(b"123456789012345678901234567890").unwrap(), parse(b"123456789012345678901234567890"));
        let (left, right, other) = (left, right.unwrap(), parse(b"-123456789012345678901234567890").unwrap());
        // SAFETY: the values are valid.
        unsafe {
            let hash = |value: &Any| any_hash(value.as_view().as_raw()).bits();
            assert_eq!(hash(&left), hash(&right));
            assert_ne!(hash(&left), hash(&other));
            assert_eq!(any_equal(left.as_view().as_raw(), right.as_view().as_raw()).bits(), 1);
            assert_eq!(any_equal(left.as_view().as_raw(), other.as_view().as_raw()).bits(), 0);
            let failed = Any::from_raw(any_equal(left.as_view().as_raw(), AnyView::NONE.as_raw()));
            assert_eq!(failed.type_index(), type_index::ERROR);
        }
    }

    /// The numbers were computed by the hooks of apache-tvm-ffi 0.1.15.post2.
    #[test]
    fn hashes_are_those_of_the_stock_library() {
        let rows = [
            ("9223372036854775808", 1894),
            ("18446744073709551616", 1),
            ("-9223372036854775809", 946),
            ("123456789012345678901234567890", 225_461_214),
            ("-123456789012345678901234567890", 1_922_025_712),
            ("170141183460469231731687303715884105727", 2842),
            ("-1606938044258990275541962092341162602522202993782792835301376", 2_147_483_395),
        ];
        for (text, expected) in rows {
            let value = parse(text.as_bytes()).unwrap();
            let key = value.as_view().as_raw();
            // SAFETY: the value is valid.
            let (hook, hash) = unsafe { (any_hash(key).bits(), any_hash::hash(key).unwrap()) };
            assert_eq!(hook, expected, "{text}");
            assert_eq!(hash, any_hash::combine(type_index::BIG_INT as u64, expected), "{text}");
        }
    }

    #[test]
    fn divisions_agree_with_wide_ones() {
        for high in [0, 1, 12345, POWER / 3, POWER - 1] {
            for low in [0, 1, POWER - 1, POWER, u64::MAX, 0x1234_5678_9abc_def0] {
                let wide = u128::from(high) << 64 | u128::from(low);
                let power = u128::from(POWER);
                assert_eq!(divide(high, low), ((wide / power) as u64, (wide % power) as u64));
            }
        }
    }
}
