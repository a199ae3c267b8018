//! Parameters of C functions: a NULL that is not allowed is reported as an error.

use core::ffi::{CStr, c_char};

use crate::abi::{TVMFFIObject, TVMFFIObjectHandle};
use crate::cells::failure::Failure;

#[cold]
#[inline(never)]
pub(super) fn is_null(parameter: &str) -> Failure {
    Failure::value(format_args!("the argument `{parameter}` is NULL"))
}

/// A reference to what a pointer parameter points to.
///
/// # Safety
/// The pointer is NULL or valid for `'a`.
pub(super) unsafe fn checked<'a, T>(pointer: *const T, parameter: &str) -> Result<&'a T, Failure> {
    // SAFETY: promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(parameter))
}

/// A result parameter that may be written.
pub(super) fn writable<T>(pointer: *mut T, parameter: &str) -> Result<*mut T, Failure> {
    if pointer.is_null() { Err(is_null(parameter)) } else { Ok(pointer) }
}

/// The bytes of a NUL-terminated parameter; `None` when it is NULL.
///
/// # Safety
/// The pointer is NULL or NUL-terminated for `'a`.
pub(super) unsafe fn c_text_or_null<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The bytes of a NUL-terminated parameter.
///
/// # Safety
/// The pointer is NULL or NUL-terminated for `'a`.
pub(super) unsafe fn c_text<'a>(text: *const c_char, parameter: &str) -> Result<&'a [u8], Failure> {
    // SAFETY: promised by the caller.
    unsafe { c_text_or_null(text) }.ok_or_else(|| is_null(parameter))
}

/// An object parameter of one type.
///
/// # Safety
/// The handle is NULL or a live object.
pub(super) unsafe fn object_of(
    handle: TVMFFIObjectHandle,
    expected: i32,
    parameter: &str,
) -> Result<*mut TVMFFIObject, Failure> {
    // SAFETY: promised by the caller.
    let found = unsafe { checked(handle, parameter)? }.type_index;
    if found != expected {
        return Err(Failure::type_error(format_args!(
            "the argument `{parameter}` must be an object of type index {expected}, not {found}"
        )));
    }
    Ok(handle)
}
