//! Backtraces: the frame that the caller names. Native frames are not walked, which the ABI allows.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};

use crate::abi::TVMFFIByteArray;

use super::backtrace_frame;

/// A thread's last backtrace, which the caller reads.
struct Last {
    text: String,
    array: TVMFFIByteArray,
}

thread_local! {
    static LAST: UnsafeCell<Last> =
        const { UnsafeCell::new(Last { text: String::new(), array: TVMFFIByteArray::EMPTY }) };
}

struct Empty(TVMFFIByteArray);

// SAFETY: the array is never changed.
unsafe impl Sync for Empty {}

static EMPTY: Empty = Empty(TVMFFIByteArray::EMPTY);

/// The backtrace whose most recent frame is the given one (none without file or function). It is valid until this thread's
/// next call.
///
/// # Safety
/// `file` and `function` are NULL or NUL-terminated.
pub unsafe fn backtrace(file: *const c_char, line: c_int, function: *const c_char) -> *const TVMFFIByteArray {
    if file.is_null() || function.is_null() {
        return &raw const EMPTY.0;
    }
    // SAFETY: promised by the caller.
    let (file, function) = unsafe { (CStr::from_ptr(file), CStr::from_ptr(function)) };
    let line = u32::try_from(line).unwrap_or(0);
    let text = backtrace_frame(&file.to_string_lossy(), line, &function.to_string_lossy());
    let stored = LAST.try_with(|last| {
        // SAFETY: only this function uses the slot, on its own thread, and no reference to it stays.
        unsafe {
            let last = &mut *last.get();
            last.text = text;
            last.array = TVMFFIByteArray::new(last.text.as_bytes());
            &raw const last.array
        }
    });
    stored.unwrap_or(&raw const EMPTY.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_frame() {
        // SAFETY: literals are NUL-terminated; each result is read before the next call.
        unsafe {
            let text = (*backtrace(c"a.cc".as_ptr(), 7, c"f(int)".as_ptr())).as_slice();
            assert_eq!(text, b"  File \"a.cc\", line 7, in f(int)\n");
            assert!((*backtrace(core::ptr::null(), 7, c"f".as_ptr())).as_slice().is_empty());
        }
    }
}
