//! Values without parts: their structural hash, and their equality.

use crate::abi::{TVMFFIAny, TVMFFIByteArray, type_index};
use crate::embedded::any_hash::{combine, hash_bytes};
use crate::embedded::{self, big_int, text_of};

/// The modulus of the hashes of small strings.
const MODULUS: u64 = 2_147_483_647;

/// The hash of a value without parts that needs no state.
#[inline]
pub(super) fn hash_leaf(value: &TVMFFIAny) -> Option<u64> {
    let index = value.type_index;
    match index {
        type_index::FLOAT => {
            // All NaN representations are equal.
            // SAFETY: the payload of a float.
            let number = unsafe { value.payload.v_float64 };
            let bits = if number.is_nan() { f64::NAN.to_bits() } else { value.bits() };
            Some(combine(index as u64, bits))
        }
        type_index::SMALL_STR => Some(combine(type_index::STR as u64, value.bits() % MODULUS)),
        type_index::STR | type_index::BYTES => Some(hash_text(value)),
        type_index::RAW_STR => {
            // SAFETY: the value is alive.
            let text = unsafe { text_of(value) }.unwrap_or_default();
            Some(combine(type_index::STR as u64, hash_bytes(text)))
        }
        type_index::BYTE_ARRAY_PTR => Some(hash_borrowed_bytes(value)),
        type_index::BIG_INT => {
            // SAFETY: the value is alive.
            let words = unsafe { big_int::content(value).as_slice() };
            Some(combine(index as u64, hash_bytes(words)))
        }
        _ if index < type_index::STATIC_OBJECT_BEGIN => Some(combine(index as i64 as u64, value.bits())),
        _ => None,
    }
}

fn hash_text(value: &TVMFFIAny) -> u64 {
    // SAFETY: the value is alive; text objects begin with pointer and length.
    let text = unsafe { embedded::body::<TVMFFIByteArray>(value.payload.v_obj).as_slice() };
    combine(value.type_index as u64, hash_bytes(text))
}

/// Hashes bytes as the owned value that would be made of them.
fn hash_borrowed_bytes(value: &TVMFFIAny) -> u64 {
    // SAFETY: the value is alive.
    let bytes = unsafe { text_of(value) }.unwrap_or_default();
    match bytes.len() {
        0..8 => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            combine(type_index::SMALL_BYTES as u64, u64::from_le_bytes(word))
        }
        _ => combine(type_index::BYTES as u64, hash_bytes(bytes)),
    }
}

/// Returns true if two values are equal; `None` if that cannot be decided at once.
#[inline]
pub(super) unsafe fn leaves_equal(left: &TVMFFIAny, right: &TVMFFIAny) -> Option<bool> {
    let index = left.type_index;
    if index != right.type_index {
        return Some(unlike_equal(left, right));
    }
    // SAFETY: promised by the caller: both are alive.
    unsafe {
        match index {
            type_index::STR | type_index::BYTES | type_index::RAW_STR | type_index::BYTE_ARRAY_PTR => {
                Some(text_of(left) == text_of(right))
            }
            type_index::BIG_INT => Some(big_int::content(left).as_slice() == big_int::content(right).as_slice()),
            type_index::STATIC_OBJECT_BEGIN.. => None,
            _ if left.bits() == right.bits() && left.small_len == right.small_len => Some(true),
            // All NaN representations are equal.
            type_index::FLOAT => Some(left.payload.v_float64.is_nan() && right.payload.v_float64.is_nan()),
            _ => Some(false),
        }
    }
}

/// Returns true if two values of different types are equal: texts in different representations may
/// be.
#[inline(never)]
fn unlike_equal(left: &TVMFFIAny, right: &TVMFFIAny) -> bool {
    let class = text_class(left.type_index);
    // SAFETY: the caller's values are alive.
    class.is_some() && class == text_class(right.type_index) && unsafe { text_of(left) == text_of(right) }
}

/// String or bytes, in any representation.
const fn text_class(index: i32) -> Option<i32> {
    match index {
        type_index::SMALL_STR | type_index::STR | type_index::RAW_STR => Some(type_index::STR),
        type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR => Some(type_index::BYTES),
        _ => None,
    }
}
