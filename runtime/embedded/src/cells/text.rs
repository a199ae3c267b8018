//! Strings and bytes: up to 7 bytes inside the value, longer ones as objects with a NUL after the
//! last byte.

use crate::abi::{TVMFFIAny, TVMFFIAnyPayload, TVMFFIByteArray, TVMFFIObject, type_index};

use super::object::{ObjectCell, new_object_with_tail};

/// The longest text that fits into a value.
const SMALL_MAX: usize = 7;

/// Creates an owned string value. `bytes` should be UTF-8, which is not checked.
#[inline]
pub fn new_string(bytes: &[u8]) -> TVMFFIAny {
    new_text(bytes, type_index::SMALL_STR, type_index::STR)
}

/// Creates an owned bytes value.
#[inline]
pub fn new_bytes(bytes: &[u8]) -> TVMFFIAny {
    new_text(bytes, type_index::SMALL_BYTES, type_index::BYTES)
}

/// Creates a string object, even if it is short.
pub fn new_string_object(bytes: &[u8]) -> *mut TVMFFIObject {
    new_text_object(bytes, type_index::STR)
}

/// Creates a bytes object, even if it is short.
pub fn new_bytes_object(bytes: &[u8]) -> *mut TVMFFIObject {
    new_text_object(bytes, type_index::BYTES)
}

/// Creates a bytes object over memory that `owner` keeps readable and unchanged, without a copy.
///
/// # Safety
/// `bytes` stays valid as long as `owner` is not dropped, wherever `owner` is moved.
pub unsafe fn new_bytes_object_of<T: Send + 'static>(bytes: *const [u8], owner: T) -> *mut TVMFFIObject {
    /// The array that readers access, followed by the owner of its memory.
    #[repr(C)]
    struct Body<T> {
        array: TVMFFIByteArray,
        _owner: T,
    }
    let array = TVMFFIByteArray { data: bytes.cast::<u8>(), size: bytes.len() };
    super::new_object(type_index::BYTES, Body { array, _owner: owner })
}

#[inline]
fn new_text(bytes: &[u8], small_index: i32, object_index: i32) -> TVMFFIAny {
    if bytes.len() <= SMALL_MAX {
        let mut content = [0; 8];
        content[..bytes.len()].copy_from_slice(bytes);
        return TVMFFIAny {
            type_index: small_index,
            small_len: bytes.len() as u32,
            payload: TVMFFIAnyPayload { v_bytes: content },
        };
    }
    TVMFFIAny::pointer(object_index, new_text_object(bytes, object_index).cast())
}

fn new_text_object(bytes: &[u8], object_index: i32) -> *mut TVMFFIObject {
    let object = new_object_with_tail(object_index, TVMFFIByteArray::EMPTY, bytes.len() + 1);
    // SAFETY: the object is new and ours; its tail has room for the bytes and the NUL, and the body
    // is a byte array.
    unsafe {
        let cell = object.cast::<ObjectCell<TVMFFIByteArray>>();
        let tail = cell.add(1).cast::<u8>();
        tail.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        tail.add(bytes.len()).write(0);
        (*cell).body = TVMFFIByteArray { data: tail, size: bytes.len() };
    }
    object
}

/// The bytes of a string or bytes value in any form: raw C string, byte array pointer, small,
/// object. `None` for other values.
///
/// # Safety
/// `value` follows the ABI's rules for its type index, and its referent lives as long as the
/// borrow.
#[inline]
pub unsafe fn text_of(value: &TVMFFIAny) -> Option<&[u8]> {
    // SAFETY: the ABI defines the valid payload of each type index; the caller promises that the
    // value follows it.
    unsafe {
        match value.type_index {
            type_index::SMALL_STR | type_index::SMALL_BYTES => {
                let len = (value.small_len as usize).min(SMALL_MAX);
                Some(core::slice::from_raw_parts((&raw const value.payload).cast::<u8>(), len))
            }
            type_index::STR | type_index::BYTES => {
                let cell = value.payload.v_obj.cast::<ObjectCell<TVMFFIByteArray>>();
                Some((*cell).body.as_slice())
            }
            type_index::RAW_STR => {
                if value.payload.v_c_str.is_null() {
                    return None;
                }
                match lent_text(value) {
                    Some(text) => Some(text.as_bytes()),
                    None => Some(core::ffi::CStr::from_ptr(value.payload.v_c_str).to_bytes()),
                }
            }
            type_index::BYTE_ARRAY_PTR => {
                let array = value.payload.v_ptr.cast::<TVMFFIByteArray>();
                if array.is_null() { None } else { Some((*array).as_slice()) }
            }
            _ => None,
        }
    }
}

/// Writes a view of a text that lives longer than the view, for a function of this artifact, which
/// then need not compute the length and check the UTF-8 again. All other code sees the C string
/// that it also is. Returns `false` if it is too long for the mark.
///
/// # Safety
/// A NUL follows the text, and `place` is writable. The view is only passed to code of this
/// artifact that takes a text, because for other code the text ends at its first NUL.
#[inline]
pub unsafe fn lend_text(text: &str, place: *mut TVMFFIAny) -> bool {
    let Ok(len) = u16::try_from(text.len()) else { return false };
    // SAFETY: promised by the caller; the parts are written where they are read.
    unsafe {
        (*place).type_index = type_index::RAW_STR;
        (*place).small_len = (mark_of(text.as_ptr()) << 16) | u32::from(len);
        (*place).payload.v_c_str = text.as_ptr().cast();
    }
    true
}

/// The text of a view from [`lend_text`]; `None` for any other value.
///
/// # Safety
/// The value follows the ABI's rules for its type index (the padding of a C string is zero), and
/// its referent lives as long as the borrow.
#[inline]
pub unsafe fn lent_text(value: &TVMFFIAny) -> Option<&str> {
    if value.type_index != type_index::RAW_STR || value.small_len == 0 {
        return None;
    }
    // SAFETY: by the type index the payload is a pointer. Only `lend_text` sets the padding, and
    // the mark of another artifact is a different number; so the pointer and the length are those
    // of a text.
    unsafe {
        let start = value.payload.v_c_str.cast::<u8>();
        if value.small_len >> 16 != mark_of(start) {
            return None;
        }
        let bytes = core::slice::from_raw_parts(start, (value.small_len & 0xffff) as usize);
        Some(core::str::from_utf8_unchecked(bytes))
    }
}

/// The mark of a text at this address: 16 bits that also depend on the address of this artifact.
/// Never 0.
#[inline]
fn mark_of(start: *const u8) -> u32 {
    static ARTIFACT: u8 = 0;
    let mixed = (start.addr() ^ (&raw const ARTIFACT).addr()) as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::dec_ref;

    #[test]
    fn small_and_heap_forms() {
        for len in [0usize, 1, 7, 8, 100] {
            let bytes: Vec<u8> = (0..len as u8).map(|i| b'a' + i % 26).collect();
            let value = new_string(&bytes);
            assert_eq!(value.type_index == type_index::SMALL_STR, len <= 7);
            // SAFETY: the value is new; its object, if any, is released once below.
            unsafe {
                assert_eq!(text_of(&value).unwrap(), bytes);
                if value.type_index >= type_index::STATIC_OBJECT_BEGIN {
                    let data = text_of(&value).unwrap().as_ptr();
                    assert_eq!(*data.add(len), 0, "NUL behind the last byte");
                    dec_ref(value.payload.v_obj);
                }
            }
        }
    }

    #[test]
    fn a_lent_text_is_a_c_string_for_others() {
        let longest = format!("{}\0", "x".repeat(65_535));
        for text in ["\0", "a\0", "with a NUL\0inside\0", longest.as_str()] {
            let text = text.strip_suffix('\0').unwrap();
            // SAFETY: a NUL follows the text, which outlives the view.
            unsafe {
                let mut view = TVMFFIAny::NONE;
                assert!(lend_text(text, &mut view));
                assert_eq!(lent_text(&view), Some(text));
                assert_eq!(text_of(&view), Some(text.as_bytes()));
                let mut plain = view;
                plain.small_len = 0;
                assert_eq!(lent_text(&plain), None);
                assert_eq!(text_of(&plain), text.as_bytes().split(|byte| *byte == 0).next());
                let mut other = view;
                other.small_len ^= 2 << 16;
                assert_eq!(lent_text(&other), None);
            }
        }
        let too_long = "x".repeat(65_536);
        let mut view = TVMFFIAny::NONE;
        // SAFETY: no view is made.
        assert!(!unsafe { lend_text(&too_long, &mut view) });
    }
}
