//! Integers outside the range of `i64`: 64-bit words, two's complement, least significant first, of
//! minimal length.

use crate::abi::{TVMFFIAny, TVMFFIBigIntCell, TVMFFIByteArray, type_index};

use super::failure::Failure;
use super::{ObjectCell, new_object_with_tail};

const WORD: usize = size_of::<i64>();

/// Creates an owned value from native-endian words; a small integer if it fits.
pub fn from_words(bytes: &[u8]) -> Result<TVMFFIAny, Failure> {
    let (words, []) = bytes.as_chunks::<WORD>() else {
        return Err(Failure::value("BigInt content must contain whole 64-bit words"));
    };
    let word = |index: usize| i64::from_ne_bytes(words[index]);
    let mut len = words.len();
    // The last word is redundant when it only repeats the sign of the one before.
    while len > 1 && word(len - 1) == word(len - 2) >> 63 {
        len -= 1;
    }
    if len <= 1 {
        return Ok(TVMFFIAny::int(if len == 0 { 0 } else { word(0) }));
    }
    let object = new_object_with_tail(type_index::BIG_INT, TVMFFIBigIntCell { num_words: len }, len * WORD);
    // SAFETY: the object is new and ours; its tail has room for `len` words.
    unsafe {
        let tail = object.cast::<ObjectCell<TVMFFIBigIntCell>>().add(1).cast::<u8>();
        tail.copy_from_nonoverlapping(bytes.as_ptr(), len * WORD);
    }
    Ok(TVMFFIAny::pointer(type_index::BIG_INT, object.cast()))
}

/// The words of an integer value, borrowed from it; empty for values of other types.
///
/// # Safety
/// `value` is valid, and the result is not used longer than it.
pub unsafe fn content(value: *const TVMFFIAny) -> TVMFFIByteArray {
    if value.is_null() {
        return TVMFFIByteArray::EMPTY;
    }
    // SAFETY: promised by the caller; the words of a big integer follow its cell.
    unsafe {
        match (*value).type_index {
            type_index::INT => TVMFFIByteArray { data: (&raw const (*value).payload).cast(), size: WORD },
            type_index::BIG_INT => {
                let cell = (*value).payload.v_obj.cast::<ObjectCell<TVMFFIBigIntCell>>();
                TVMFFIByteArray { data: cell.add(1).cast(), size: (*cell).body.num_words * WORD }
            }
            _ => TVMFFIByteArray::EMPTY,
        }
    }
}

/// The float nearest to the integer with these words, ties to even; infinity if the integer is too
/// large.
#[inline]
#[must_use]
pub fn to_float(words: &[u8]) -> f64 {
    let words = words.as_chunks::<WORD>().0;
    let is_negative = words.last().is_some_and(|word| i64::from_ne_bytes(*word) < 0);
    let mut carry = is_negative;
    let magnitude: Vec<u64> = words
        .iter()
        .map(|word| {
            let word = u64::from_ne_bytes(*word);
            if !is_negative {
                return word;
            }
            let (word, overflows) = (!word).overflowing_add(carry.into());
            carry = overflows;
            word
        })
        .collect();
    let Some(top) = magnitude.iter().rposition(|word| *word != 0) else { return 0.0 };
    let (shift, below) = (magnitude[top].leading_zeros(), &magnitude[..top]);
    // The first 64 bits. A sticky bit represents all lower bits.
    let next = below.last().map_or(0, |word| u128::from(*word) << shift);
    let has_more = next as u64 != 0 || below.iter().rev().skip(1).any(|word| *word != 0);
    let leading = magnitude[top] << shift | (next >> 64) as u64 | u64::from(has_more);
    let exponent = top as i64 * 64 - i64::from(shift);
    if exponent > 1023 {
        return if is_negative { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let float = leading as f64 * f64::from_bits(((1023 + exponent) as u64) << 52);
    if is_negative { -float } else { float }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::release::release;

    fn check(words: &[i64], expected: &[i64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let value = from_words(&bytes).unwrap();
        let is_int = value.type_index == type_index::INT;
        assert_eq!(is_int, expected.len() == 1, "{words:?}");
        // SAFETY: the value is alive until it is released, once.
        unsafe {
            let content = content(&value).as_slice();
            let words: Vec<i64> = content.as_chunks::<8>().0.iter().map(|word| i64::from_ne_bytes(*word)).collect();
            assert_eq!(words, expected);
            release(value);
        }
    }

    #[test]
    fn floats_are_the_nearest() {
        let float = |words: &[i64]| to_float(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
        let two = 2.0_f64;
        for (words, expected) in [
            (&[i64::MIN, 0][..], two.powi(63)),
            (&[-1, 0], two.powi(64)),
            (&[i64::MAX, -1], -two.powi(63)),
            (&[0, 1], two.powi(64)),
            (&[0, -1], -two.powi(64)),
            // Halfway between two floats, and just above it.
            (&[1 << 11, 1], two.powi(64)),
            (&[(1 << 11) + 1, 1], two.powi(64) + 4096.0),
            (&[3 << 11, 1], two.powi(64) + 8192.0),
            (&[1, 1 << 11, 1], two.powi(128) + two.powi(76)),
            (&[0, 1 << 11, 1], two.powi(128)),
            (&[-(1 << 11) - 1, -2], -two.powi(64) - 4096.0),
            (&[0; 3], 0.0),
        ] {
            assert_eq!(float(words), expected, "{words:?}");
        }
        let with_top = |len: usize, top: i64| {
            let mut words = vec![0; len];
            words[len - 1] = top;
            words
        };
        assert_eq!(float(&with_top(16, ((1 << 53) - 1) << 10)), f64::MAX / 2.0);
        assert_eq!(float(&[&[0; 15][..], &[-1 << 11, 0]].concat()), f64::MAX);
        assert_eq!(float(&with_top(17, 1)), f64::INFINITY);
        assert_eq!(float(&with_top(17, -1)), f64::NEG_INFINITY);
        assert_eq!(float(&with_top(40, 1)), f64::INFINITY);
        for number in [i64::MIN, -7, -1, 1, 5, i64::MAX, (1 << 53) + 1] {
            assert_eq!(float(&[number]), number as f64);
        }
    }

    #[test]
    fn words_are_normalized() {
        check(&[], &[0]);
        check(&[-7], &[-7]);
        check(&[5, 0, 0], &[5]);
        check(&[-5, -1], &[-5]);
        check(&[-5, 0], &[-5, 0]);
        check(&[5, -1], &[5, -1]);
        check(&[1, 2, 0, 0], &[1, 2]);
        check(&[1, -2, -1, -1], &[1, -2]);
        check(&[0, 0, i64::MIN], &[0, 0, i64::MIN]);
        assert_eq!(from_words(&[0; 9]).err().unwrap().kind(), "ValueError");
    }
}
