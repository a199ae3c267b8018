//! Backtraces: the frame that the caller names, then the native frames below it, one line each,
//! most recent call first.
//!
//! Native frames are included with feature `builtins`, that is in libraries that serve others.
//! Without it, a backtrace is the given frame, which the ABI allows.

#[cfg(feature = "native-frames")]
mod native_frames;
#[cfg(feature = "native-frames")]
mod stack_walk;
#[cfg(feature = "native-frames")]
mod symbols;

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};

use crate::abi::TVMFFIByteArray;

#[cfg(feature = "native-frames")]
use native_frames::push_native_frames;

/// A thread's last backtrace, which the caller reads.
struct Last {
    text: Vec<u8>,
    array: TVMFFIByteArray,
}

thread_local! {
    static LAST: UnsafeCell<Last> = const { UnsafeCell::new(Last { text: Vec::new(), array: TVMFFIByteArray::EMPTY }) };
}

struct Empty(TVMFFIByteArray);

// SAFETY: the array is never changed.
unsafe impl Sync for Empty {}

static EMPTY: Empty = Empty(TVMFFIByteArray { data: c"".as_ptr().cast(), size: 0 });

/// The begin and the end of a backtrace's native frames.
#[cfg_attr(not(feature = "native-frames"), allow(dead_code, reason = "there are no native frames"))]
pub(crate) struct Extent {
    /// The first frame is that of the caller of the function whose [`here`] this is.
    pub(crate) below: usize,
    /// Frames to leave out at the beginning.
    pub(crate) skip: usize,
    pub(crate) cross_boundary: bool,
}

/// An address in the calling function's stack frame, which identifies the frame.
#[inline(always)]
pub(crate) fn here() -> usize {
    let marker = UnsafeCell::new(0_u8);
    core::hint::black_box(marker.get()).addr()
}

/// Returns true if a frame is irrelevant in a backtrace: part of a call's path through the runtime
/// and the C++ library.
pub(crate) fn is_hidden(symbol: &[u8], file: &[u8]) -> bool {
    // Texts with a line for each name: with arrays, every library would contain a comparison for
    // each name, and relocations.
    const SYMBOLS: &str = "tvm::ffi::Function
tvm::ffi::detail::
TVMFFIBacktrace
TVMFFIErrorSetRaisedFromCStr
__libc_
ffi_call_
kernpack_embedded::
__rust_try";
    // The last two are the standard libraries of C++ and of Rust.
    const FILES: &str = "include/tvm/ffi/error.h
include/tvm/ffi/function_detail.h
include/tvm/ffi/function.h
include/tvm/ffi/any.h
include/c++/
/rustc/";
    let symbol = symbol.strip_prefix(b"<").unwrap_or(symbol);
    let names = |names: &'static str| names.as_bytes().split(|byte| *byte == b'\n');
    names(SYMBOLS).any(|name| symbol.starts_with(name))
        || names(FILES).any(|name| file.windows(name.len()).any(|part| part == name))
}

/// Adds a line of a backtrace.
pub(crate) fn push_frame(text: &mut Vec<u8>, file: &[u8], line: i64, function: &[u8]) {
    let mut digits = [0; 20];
    text.extend_from_slice(b"  File \"");
    text.extend_from_slice(file);
    text.extend_from_slice(b"\", line ");
    if line < 0 {
        text.push(b'-');
    }
    text.extend_from_slice(decimal(line.unsigned_abs(), &mut digits));
    text.extend_from_slice(b", in ");
    text.extend_from_slice(function);
    text.push(b'\n');
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// Without native frames.
#[cfg(not(feature = "native-frames"))]
fn push_native_frames(_text: &mut Vec<u8>, _lines: usize, _extent: &Extent) {}

/// Writes a backtrace into `text`: first the given frame, if any, then the native ones.
#[cold]
#[inline(never)]
fn write(text: &mut Vec<u8>, given: Option<(&[u8], i64, &[u8])>, extent: &Extent) {
    text.clear();
    let mut lines = 0;
    if let Some((file, line, function)) = given
        && !is_hidden(function, file)
    {
        push_frame(text, file, line, function);
        lines = 1;
    }
    push_native_frames(text, lines, extent);
}

/// The backtrace of the caller of the function whose [`here`] is `below`. Its most recent frame is
/// the given one, which then replaces the caller's own. It is valid until this thread's next call.
///
/// # Safety
/// `file` and `function` are NULL or NUL-terminated.
pub(crate) unsafe fn backtrace(
    file: *const c_char,
    line: c_int,
    function: *const c_char,
    cross_boundary: bool,
    below: usize,
) -> *const TVMFFIByteArray {
    // SAFETY: promised by the caller.
    let given = unsafe {
        (!file.is_null() && !function.is_null())
            .then(|| (CStr::from_ptr(file).to_bytes(), i64::from(line), CStr::from_ptr(function).to_bytes()))
    };
    let extent = Extent { below, skip: given.is_some().into(), cross_boundary };
    let written = LAST.try_with(|last| {
        // SAFETY: only this function uses the slot, on its own thread, and no reference to it
        // stays.
        unsafe {
            let last = &mut *last.get();
            write(&mut last.text, given, &extent);
            // C code may read it up to a NUL.
            last.text.push(0);
            last.array = TVMFFIByteArray::new(&last.text[..last.text.len() - 1]);
            &raw const last.array
        }
    });
    written.unwrap_or(&raw const EMPTY.0)
}

/// The backtrace of an error of our own: the given frame, and the callers of the function whose
/// [`here`] is `below`.
pub(crate) fn backtrace_of_failure(file: &str, line: u32, function: &str, below: usize) -> Vec<u8> {
    let extent = Extent { below, skip: 0, cross_boundary: false };
    let mut text = Vec::new();
    write(&mut text, Some((file.as_bytes(), line.into(), function.as_bytes())), &extent);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_frame_comes_first() {
        // SAFETY: literals are NUL-terminated; each result is read before the next call.
        let backtrace = |file: *const c_char, function: *const c_char| unsafe {
            (*backtrace(file, -7, function, false, here())).as_slice().to_vec()
        };
        let text = backtrace(c"a.cc".as_ptr(), c"f(int)".as_ptr());
        assert!(text.starts_with(b"  File \"a.cc\", line -7, in f(int)\n"));
        let text = backtrace(core::ptr::null(), c"f(int)".as_ptr());
        assert!(!text.starts_with(b"  File \"a.cc\""));
        let text = backtrace(c"include/tvm/ffi/any.h".as_ptr(), c"f(int)".as_ptr());
        assert!(!text.starts_with(b"  File \"include"));
    }

    #[test]
    fn numbers() {
        let mut digits = [0; 20];
        for number in [0, 9, 10, 1234567890, u64::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
