//! Errors: the raised error, new errors, backtraces.

use core::ffi::{c_char, c_int};

use super::parameters::c_text_or_null;
use crate::abi::{TVMFFIByteArray, TVMFFIObjectHandle};
use crate::backtrace;
use crate::backtrace::here;
use crate::cells::new_error;
use crate::tables::raised;

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn error_move_from_raised(out: *mut TVMFFIObjectHandle) {
    if !out.is_null() {
        // SAFETY: see above.
        unsafe { out.write(raised::take_raised()) }
    }
}

pub(super) unsafe extern "C" fn error_set_raised(error: TVMFFIObjectHandle) {
    // SAFETY: see above.
    unsafe { raised::set_raised(error) }
}

pub(super) unsafe extern "C" fn error_set_raised_from_c_str(kind: *const c_char, message: *const c_char) {
    // SAFETY: see above.
    unsafe { raise_with_backtrace(kind, c_text_or_null(message).unwrap_or_default(), here()) }
}

pub(super) unsafe extern "C" fn error_set_raised_from_c_str_parts(
    kind: *const c_char,
    parts: *const *const c_char,
    num_parts: i32,
) {
    let mut message = Vec::new();
    if !parts.is_null() {
        for index in 0..usize::try_from(num_parts).unwrap_or(0) {
            // SAFETY: see above.
            if let Some(part) = unsafe { c_text_or_null(*parts.add(index)) } {
                message.extend_from_slice(part);
            }
        }
    }
    // SAFETY: see above.
    unsafe { raise_with_backtrace(kind, &message, here()) }
}

/// Raises an error with the backtrace of the caller of the function whose [`here`] is `below`.
#[cold]
#[inline(never)]
unsafe fn raise_with_backtrace(kind: *const c_char, message: &[u8], below: usize) {
    // SAFETY: see above. The backtrace is this thread's, and copied at once.
    unsafe {
        let backtrace = backtrace::backtrace(core::ptr::null(), 0, core::ptr::null(), false, below);
        raised::raise(c_text_or_null(kind).unwrap_or(b"RuntimeError"), message, (*backtrace).as_slice());
    }
}

pub(super) unsafe extern "C" fn error_create(
    kind: *const TVMFFIByteArray,
    message: *const TVMFFIByteArray,
    backtrace: *const TVMFFIByteArray,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let no = core::ptr::null_mut();
    // SAFETY: see above.
    unsafe { error_create_with_cause_and_extra_context(kind, message, backtrace, no, no, out) }
}

pub(super) unsafe extern "C" fn error_create_with_cause_and_extra_context(
    kind: *const TVMFFIByteArray,
    message: *const TVMFFIByteArray,
    backtrace: *const TVMFFIByteArray,
    cause_chain: TVMFFIObjectHandle,
    extra_context: TVMFFIObjectHandle,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    if out.is_null() {
        return -1;
    }
    // An error about an error would only hide it, so nothing is raised here: NULL is treated as
    // empty.
    // SAFETY: see above.
    unsafe {
        let text = |array: *const TVMFFIByteArray| if array.is_null() { &b""[..] } else { (*array).as_slice() };
        out.write(new_error(text(kind), text(message), text(backtrace), cause_chain, extra_context));
    }
    0
}

pub(super) unsafe extern "C" fn backtrace_at(
    filename: *const c_char,
    lineno: c_int,
    func: *const c_char,
    cross_ffi_boundary: c_int,
) -> *const TVMFFIByteArray {
    // SAFETY: see above.
    unsafe { backtrace::backtrace(filename, lineno, func, cross_ffi_boundary != 0, here()) }
}
