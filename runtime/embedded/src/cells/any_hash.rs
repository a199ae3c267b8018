//! Hash and equality of map keys, bit-identical to the inline computation of C++ code.
//!
//! Strings and bytes go by content whatever their form, large integers by their words, other
//! objects by the hooks of their type (attributes `__any_hash__` and `__any_equal__`) or else by
//! address, everything else by type and payload. The hooks of large integers give the same, but
//! only processes with all built-in types have them.

use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIFunctionCell, TVMFFIObject, TVMFFITypeAttrColumn, type_index};

use super::big_int;
use super::failure::Failure;
use super::release::release;
use super::serving::serving;
use super::{body, text_of};

const MULTIPLIER: u64 = 1_099_511_628_211;
const MODULUS: u64 = 2_147_483_647;

/// The hash of bytes: 8-byte little-endian words, the last one zero-extended.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let step = |hash: u64, word: u64| reduce(hash.wrapping_mul(MULTIPLIER).wrapping_add(word));
    let hash = words.iter().fold(0, |hash, word| step(hash, u64::from_le_bytes(*word)));
    if tail.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    step(hash, u64::from_le_bytes(last))
}

/// Computes `value % MODULUS`: the modulus is a power of two minus 1, so that the high bits can be
/// added to the low ones.
#[inline]
const fn reduce(value: u64) -> u64 {
    const BITS: u32 = 31;
    let sum = (value & MODULUS) + (value >> BITS);
    let sum = (sum & MODULUS) + (sum >> BITS);
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

/// Mixes a value into a hash.
#[inline]
pub const fn combine(hash: u64, value: u64) -> u64 {
    hash ^ value.wrapping_add(0x9e37_79b9).wrapping_add(hash << 6).wrapping_add(hash >> 2)
}

/// The hash of a key; for a view, the hash of the key that would be made of it.
///
/// # Errors
/// The hook of the key's type failed.
///
/// # Safety
/// `key` is a valid value or view, but no rvalue reference.
#[inline]
pub unsafe fn hash(key: &TVMFFIAny) -> Result<u64, Failure> {
    match key.type_index {
        type_index::SMALL_STR => Ok(combine(type_index::STR as u64, reduce(key.bits()))),
        index if !has_content(index) && index != type_index::SMALL_BYTES => {
            Ok(combine(index as i64 as u64, key.bits()))
        }
        // SAFETY: promised by the caller.
        _ => unsafe { hash_content(key) },
    }
}

/// Returns true if the payload refers to data that hash and equality may have to read.
#[inline]
const fn has_content(index: i32) -> bool {
    index >= type_index::STATIC_OBJECT_BEGIN || matches!(index, type_index::RAW_STR | type_index::BYTE_ARRAY_PTR)
}

#[inline(never)]
unsafe fn hash_content(key: &TVMFFIAny) -> Result<u64, Failure> {
    // SAFETY: promised by the caller, for the texts and for the hook's argument.
    unsafe {
        if let Some(class) = text_class(key) {
            return Ok(combine(class as u64, hash_bytes(text_of(key).unwrap_or_default())));
        }
        if key.type_index == type_index::BIG_INT {
            return Ok(combine(type_index::BIG_INT as u64, hash_bytes(big_int::content(key).as_slice())));
        }
        // Neither, so an object.
        let value = match hook(&HASH, key.type_index) {
            Some(hook) => call_hash(&hook, key)?,
            None => key.bits(),
        };
        Ok(combine(key.type_index as i64 as u64, value))
    }
}

/// Returns true if two values have the same bits: the same plain value, or the same object.
#[inline]
#[must_use]
pub const fn is_identical(left: &TVMFFIAny, right: &TVMFFIAny) -> bool {
    left.type_index == right.type_index && left.small_len == right.small_len && left.bits() == right.bits()
}

/// Returns true if two keys are equal. A view is equal to the key that would be made of it.
///
/// # Errors
/// The hook of the keys' type failed.
///
/// # Safety
/// Both are valid values or views, but no rvalue references.
#[inline]
pub unsafe fn equal(left: &TVMFFIAny, right: &TVMFFIAny) -> Result<bool, Failure> {
    if is_identical(left, right) {
        return Ok(true);
    }
    if !has_content(left.type_index) && !has_content(right.type_index) {
        return Ok(false);
    }
    // SAFETY: promised by the caller; the body of a string is a byte array.
    unsafe {
        if left.type_index == type_index::STR && right.type_index == type_index::STR {
            // The fast path for long keys.
            let text = |value: &TVMFFIAny| body::<TVMFFIByteArray>(value.payload.v_obj).as_slice();
            return Ok(text(left) == text(right));
        }
        equal_content(left, right)
    }
}

#[inline(never)]
unsafe fn equal_content(left: &TVMFFIAny, right: &TVMFFIAny) -> Result<bool, Failure> {
    // SAFETY: promised by the caller, for the texts and for the hook's arguments.
    unsafe {
        if let Some(class) = text_class(left) {
            return Ok(text_class(right) == Some(class) && text_of(left) == text_of(right));
        }
        if left.type_index != right.type_index {
            return Ok(false);
        }
        if left.type_index == type_index::BIG_INT {
            return Ok(big_int::content(left).as_slice() == big_int::content(right).as_slice());
        }
        match hook(&EQUAL, left.type_index) {
            Some(hook) => call_equal(&hook, left, right),
            None => Ok(false),
        }
    }
}

/// Returns true if hash or equality of a key calls a hook, which is foreign code.
///
/// # Safety
/// `key` is a valid value or view, but no rvalue reference.
#[inline]
#[must_use]
pub unsafe fn has_hooks(key: &TVMFFIAny) -> bool {
    key.type_index >= type_index::STATIC_OBJECT_BEGIN
        && key.type_index != type_index::BIG_INT
        && text_class(key).is_none()
        && (hook(&HASH, key.type_index).is_some() || hook(&EQUAL, key.type_index).is_some())
}

/// String or bytes, in any representation.
#[inline]
fn text_class(value: &TVMFFIAny) -> Option<i32> {
    match value.type_index {
        type_index::SMALL_STR | type_index::STR | type_index::RAW_STR => Some(type_index::STR),
        type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR => Some(type_index::BYTES),
        _ => None,
    }
}

/// An attribute column of the serving implementation, looked up at first use.
struct Column {
    name: &'static str,
    column: AtomicPtr<TVMFFITypeAttrColumn>,
}

static HASH: Column = Column { name: "__any_hash__", column: AtomicPtr::new(core::ptr::null_mut()) };
static EQUAL: Column = Column { name: "__any_equal__", column: AtomicPtr::new(core::ptr::null_mut()) };

/// Clears the cached columns; called when another implementation begins to serve.
pub(super) fn forget_columns() {
    HASH.column.store(core::ptr::null_mut(), Ordering::Release);
    EQUAL.column.store(core::ptr::null_mut(), Ordering::Release);
}

/// The value that the type of an object has registered in the column.
#[inline]
fn hook(column: &Column, type_index: i32) -> Option<TVMFFIAny> {
    let mut found = column.column.load(Ordering::Acquire);
    if found.is_null() {
        found = look_up(column)?;
    }
    // SAFETY: columns never move and never shrink, and `data` holds at least `size` values. A
    // value's type index is written last.
    unsafe {
        let size = AtomicI32::from_ptr(&raw mut (*found).size).load(Ordering::Acquire);
        let offset = type_index.wrapping_sub((*found).begin_index);
        if offset < 0 || offset >= size {
            return None;
        }
        let data = AtomicPtr::from_ptr((&raw mut (*found).data).cast::<*mut TVMFFIAny>()).load(Ordering::Acquire);
        let slot = data.add(offset as usize);
        let type_index = AtomicI32::from_ptr(&raw mut (*slot).type_index).load(Ordering::Acquire);
        (type_index != type_index::NONE).then(|| TVMFFIAny { type_index, ..slot.read() })
    }
}

/// Looks up a column with the serving implementation.
#[cold]
#[inline(never)]
fn look_up(column: &Column) -> Option<*mut TVMFFITypeAttrColumn> {
    let name = TVMFFIByteArray::new(column.name.as_bytes());
    // SAFETY: the name lives during the call.
    let found = unsafe { (serving().get_type_attr_column)(&raw const name) }.cast_mut();
    if found.is_null() {
        return None;
    }
    column.column.store(found, Ordering::Release);
    Some(found)
}

unsafe fn call_hash(hook: &TVMFFIAny, key: &TVMFFIAny) -> Result<u64, Failure> {
    // SAFETY: the type of native hooks of this column is defined by the ABI; the caller promises a
    // valid key.
    unsafe {
        let result = if hook.type_index == type_index::OPAQUE_PTR && !hook.payload.v_ptr.is_null() {
            type Hook = unsafe extern "C" fn(*const TVMFFIAny) -> TVMFFIAny;
            core::mem::transmute::<*mut core::ffi::c_void, Hook>(hook.payload.v_ptr)(key)
        } else {
            call_function(hook, "__any_hash__", &[*key])?
        };
        match result.type_index {
            type_index::INT => Ok(result.bits()),
            _ => Err(unexpected(result, "__any_hash__", "int")),
        }
    }
}

unsafe fn call_equal(hook: &TVMFFIAny, left: &TVMFFIAny, right: &TVMFFIAny) -> Result<bool, Failure> {
    // SAFETY: the type of native hooks of this column is defined by the ABI; the caller promises
    // valid keys.
    unsafe {
        let result = if hook.type_index == type_index::OPAQUE_PTR && !hook.payload.v_ptr.is_null() {
            type Hook = unsafe extern "C" fn(*const TVMFFIAny, *const TVMFFIAny) -> TVMFFIAny;
            core::mem::transmute::<*mut core::ffi::c_void, Hook>(hook.payload.v_ptr)(left, right)
        } else {
            call_function(hook, "__any_equal__", &[*left, *right])?
        };
        match result.type_index {
            type_index::BOOL => Ok(result.bits() != 0),
            _ => Err(unexpected(result, "__any_equal__", "bool")),
        }
    }
}

unsafe fn call_function(function: &TVMFFIAny, attribute: &str, args: &[TVMFFIAny]) -> Result<TVMFFIAny, Failure> {
    if function.type_index != type_index::FUNCTION {
        return Err(Failure::internal(format_args!(
            "the type attribute `{attribute}` must be a native hook or a function, not a value of type index {}",
            function.type_index
        )));
    }
    // SAFETY: the value is a function, which the column keeps alive; the arguments are valid
    // values.
    unsafe { call(function.payload.v_obj, args) }
}

/// Calls a function object; the result is owned.
///
/// # Safety
/// `function` is a live function and `args` are valid values.
pub(crate) unsafe fn call(function: *mut TVMFFIObject, args: &[TVMFFIAny]) -> Result<TVMFFIAny, Failure> {
    let mut result = TVMFFIAny::NONE;
    // SAFETY: promised by the caller; the result owns nothing before the call.
    unsafe {
        let Some(safe_call) = body::<TVMFFIFunctionCell>(function).safe_call else {
            return Err(Failure::internal("a function object has no entry point"));
        };
        if safe_call(function.cast(), args.as_ptr(), args.len() as i32, &raw mut result) != 0 {
            return Err(Failure::take_raised());
        }
    }
    Ok(result)
}

unsafe fn unexpected(result: TVMFFIAny, attribute: &str, expected: &str) -> Failure {
    // SAFETY: hooks return owned values; an error value is the hook's way to fail.
    unsafe {
        if result.type_index == type_index::ERROR {
            return Failure::from_object(result.payload.v_obj);
        }
        release(result);
    }
    Failure::internal(format_args!(
        "the hook `{attribute}` must return {expected}, but returned a value of type index {}",
        result.type_index
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{dec_ref, new_bytes, new_string, new_string_object};

    #[test]
    fn texts_go_by_content() {
        // SAFETY: all values are valid; the object is released once.
        unsafe {
            for text in [&b""[..], b"a", b"seven77"] {
                let small = new_string(text);
                let object = new_string_object(text);
                let heap = TVMFFIAny::pointer(type_index::STR, object.cast());
                assert_eq!(hash(&small).unwrap(), hash(&heap).unwrap(), "{text:?}");
                assert!(equal(&small, &heap).unwrap() && equal(&heap, &small).unwrap());
                assert!(!equal(&small, &new_bytes(text)).unwrap(), "a string is not bytes");
                assert_ne!(hash(&small).unwrap(), hash(&new_bytes(text)).unwrap());
                dec_ref(object);
            }
        }
    }

    #[test]
    fn numbers_go_by_type_and_payload() {
        // SAFETY: no objects.
        unsafe {
            let values = [TVMFFIAny::int(1), TVMFFIAny::bool(true), TVMFFIAny::float(1.0), TVMFFIAny::NONE];
            for (i, left) in values.iter().enumerate() {
                for (j, right) in values.iter().enumerate() {
                    assert_eq!(equal(left, right).unwrap(), i == j);
                    assert_eq!(hash(left).unwrap() == hash(right).unwrap(), i == j);
                }
            }
        }
    }

    #[test]
    fn large_integers_go_by_their_words() {
        let number =
            |low: i64, high: i64| big_int::from_words(&[low.to_ne_bytes(), high.to_ne_bytes()].concat()).unwrap();
        let numbers = [number(0, 1), number(1, 1), number(0, -2), TVMFFIAny::int(1)];
        // SAFETY: all values are valid; each object is released once.
        unsafe {
            for (i, left) in numbers.iter().enumerate() {
                let again = [number(0, 1), number(1, 1), number(0, -2), TVMFFIAny::int(1)];
                for (j, right) in again.into_iter().enumerate() {
                    assert_eq!(equal(left, &right).unwrap(), i == j);
                    assert_eq!(hash(left).unwrap() == hash(&right).unwrap(), i == j);
                    release(right);
                }
            }
            assert!(!has_hooks(&numbers[0]));
            numbers.into_iter().for_each(|number| release(number));
        }
    }

    #[test]
    fn known_hashes() {
        assert_eq!(hash_bytes(b""), 0);
        assert_eq!(hash_bytes(b"a"), 97);
        for value in [0, 1, MODULUS - 1, MODULUS, MODULUS + 1, 2 * MODULUS, 1 << 62, u64::MAX - 1, u64::MAX] {
            assert_eq!(reduce(value), value % MODULUS, "{value}");
        }
        // Two words, computed by hand: ((w0 % m) * p + w1) % m.
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let expected = (word(b"abcdefgh") % MODULUS).wrapping_mul(MULTIPLIER).wrapping_add(word(b"ij\0\0\0\0\0\0"));
        assert_eq!(hash_bytes(b"abcdefghij"), expected % MODULUS);
        assert_eq!(combine(1, 2), 1 ^ (2 + 0x9e37_79b9 + 64));
    }
}
