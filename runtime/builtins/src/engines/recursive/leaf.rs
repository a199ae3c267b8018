//! Values without parts: their recursive hash, and their order.

use core::cmp::Ordering;

use crate::abi::{TVMFFIAny, type_index};
use crate::definition::signature::type_key;
use crate::embedded::any_hash::{combine, hash_bytes};
use crate::embedded::{big_int, release, shape, text_of};
use crate::functions::big_int::compare as compare_words;
use crate::value::Any;
use crate::{Result, bail, error};

/// Hashes a value without parts.
#[inline]
pub(super) fn hash_leaf(value: &TVMFFIAny) -> Option<u64> {
    let index = value.type_index;
    let kind = index as i64 as u64;
    // SAFETY: the value is alive, and its payload matches its type index.
    unsafe {
        match index {
            type_index::NONE => Some(combine(0, 0)),
            type_index::STR | type_index::SMALL_STR | type_index::RAW_STR => {
                Some(combine(type_index::STR as u64, hash_bytes(text_of(value).unwrap_or_default())))
            }
            type_index::BYTES | type_index::SMALL_BYTES | type_index::BYTE_ARRAY_PTR => {
                Some(combine(type_index::BYTES as u64, hash_bytes(text_of(value).unwrap_or_default())))
            }
            type_index::BOOL => Some(combine(kind, u64::from(value.bits() != 0))),
            type_index::FLOAT => {
                let number = value.payload.v_float64;
                let bits = match number {
                    _ if number.is_nan() => f64::NAN.to_bits(),
                    0.0 => 0,
                    _ => value.bits(),
                };
                Some(combine(kind, bits))
            }
            type_index::DATA_TYPE => {
                let dtype = value.payload.v_dtype;
                let hash = combine(combine(kind, dtype.code.into()), dtype.bits.into());
                Some(combine(hash, dtype.lanes.into()))
            }
            type_index::DEVICE => {
                let device = value.payload.v_device;
                let hash = combine(kind, i64::from(device.device_type).cast_unsigned());
                Some(combine(hash, i64::from(device.device_id).cast_unsigned()))
            }
            _ if index < type_index::STATIC_OBJECT_BEGIN => Some(combine(kind, value.bits())),
            _ => None,
        }
    }
}

/// The order of two values without parts; `None` when they have parts.
#[inline]
pub(super) unsafe fn compare_leaves(
    left: &TVMFFIAny,
    right: &TVMFFIAny,
    equality_only: bool,
) -> Result<Option<Ordering>> {
    let (index, right_index) = (left.type_index, right.type_index);
    // SAFETY: promised by the caller: both are alive, and their payloads match their type indices.
    unsafe {
        match index {
            type_index::NONE | type_index::INT if index == right_index => {
                return Ok(Some(left.payload.v_int64.cmp(&right.payload.v_int64)));
            }
            type_index::NONE => return Ok(Some(Ordering::Less)),
            _ if right_index == type_index::NONE => return Ok(Some(Ordering::Greater)),
            type_index::SMALL_STR | type_index::STR | type_index::RAW_STR if is_string(right_index) => {
                return Ok(Some(text_of(left).cmp(&text_of(right))));
            }
            type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR if is_bytes(right_index) => {
                return Ok(Some(text_of(left).cmp(&text_of(right))));
            }
            _ => {}
        }
        if index != right_index {
            return compare_types(left, right, equality_only).map(Some);
        }
        if index < type_index::STATIC_OBJECT_BEGIN {
            return compare_plain(left, right, equality_only).map(Some);
        }
        if index == type_index::BIG_INT {
            return Ok(Some(compare_integers(left, right)));
        }
        let (left, right) = (left.payload.v_obj, right.payload.v_obj);
        if left == right {
            return Ok(Some(Ordering::Equal));
        }
        if index == type_index::SHAPE {
            return Ok(Some(shape::dimensions(left).cmp(shape::dimensions(right))));
        }
        Ok(None)
    }
}

#[inline]
const fn is_string(index: i32) -> bool {
    matches!(index, type_index::SMALL_STR | type_index::STR | type_index::RAW_STR)
}

#[inline]
const fn is_bytes(index: i32) -> bool {
    matches!(index, type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR)
}

/// Compares values of different types.
#[inline]
unsafe fn compare_types(left: &TVMFFIAny, right: &TVMFFIAny, equality_only: bool) -> Result<Ordering> {
    if equality_only {
        return Ok(Ordering::Greater);
    }
    if matches!(
        (left.type_index, right.type_index),
        (type_index::INT, type_index::BIG_INT) | (type_index::BIG_INT, type_index::INT)
    ) {
        // SAFETY: promised by the caller: both are alive.
        return Ok(unsafe { compare_integers(left, right) });
    }
    let [left, right] = [left, right].map(key_of);
    bail!(TypeError, "Cannot compare values of different types: {left} vs {right}")
}

/// The key of a value's type; for a view, of the owned value that would be made of it.
#[inline]
fn key_of(value: &TVMFFIAny) -> String {
    // SAFETY: the caller keeps the value alive, which is not an rvalue reference; only the key of
    // the owned one is looked at.
    unsafe {
        let owned = release::to_owned(value).map_or(Any::NONE, |owned| Any::from_raw(owned));
        type_key(owned.as_view())
    }
}

/// Compares values of the same type that are not objects.
#[inline]
unsafe fn compare_plain(left: &TVMFFIAny, right: &TVMFFIAny, equality_only: bool) -> Result<Ordering> {
    // SAFETY: promised by the caller: the payloads match the type index.
    unsafe {
        match left.type_index {
            type_index::BOOL => Ok((left.bits() != 0).cmp(&(right.bits() != 0))),
            type_index::FLOAT => {
                let (left, right) = (left.payload.v_float64, right.payload.v_float64);
                match left.partial_cmp(&right) {
                    Some(ordering) => Ok(ordering),
                    None if !equality_only => Err(error!(TypeError, "Cannot order NaN values")),
                    None if left.is_nan() && right.is_nan() => Ok(Ordering::Equal),
                    None => Ok(Ordering::Greater),
                }
            }
            type_index::DATA_TYPE => {
                let (left, right) = (left.payload.v_dtype, right.payload.v_dtype);
                Ok((left.code, left.bits, left.lanes).cmp(&(right.code, right.bits, right.lanes)))
            }
            type_index::DEVICE => {
                let (left, right) = (left.payload.v_device, right.payload.v_device);
                Ok((left.device_type, left.device_id).cmp(&(right.device_type, right.device_id)))
            }
            _ if (left.small_len, left.bits()) == (right.small_len, right.bits()) => Ok(Ordering::Equal),
            _ if equality_only => Ok(Ordering::Greater),
            _ => Err(error!(TypeError, "Cannot order values of type {}", key_of(left))),
        }
    }
}

/// Compares integers of any size.
#[inline]
unsafe fn compare_integers(left: &TVMFFIAny, right: &TVMFFIAny) -> Ordering {
    // SAFETY: promised by the caller: both are alive.
    unsafe { compare_words(big_int::content(left).as_slice(), big_int::content(right).as_slice()) }
}
