//! Integers outside the range of `i64`: 64-bit words, two's complement, least significant first, of minimal length.

use crate::abi::{TVMFFIAny, TVMFFIBigIntCell, TVMFFIByteArray, type_index};

use super::failure::Failure;
use super::{ObjectCell, new_object_with_tail};

const WORD: usize = size_of::<i64>();

/// An owned value from native-endian words; it becomes an ordinary integer when it fits.
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
