use core::ffi::c_void;

use super::{TVMFFIAny, TVMFFIByteArray, TVMFFIObjectHandle, assert_layout};

/// The calling convention of a packed function: 0 is success, -1 means that an error is raised on
/// this thread.
///
/// `args` are views. The caller sets `result` to a value that owns nothing (None); the callee
/// overwrites it with an owned value or leaves it unchanged.
pub type SafeCall =
    unsafe extern "C" fn(handle: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32;

/// Fields of a shape, after the object header. Dimensions are in elements.
#[repr(C)]
pub struct TVMFFIShapeCell {
    /// First dimension.
    pub data: *const i64,
    /// Number of dimensions.
    pub size: usize,
}

/// Fields of an array or list, after the object header.
#[repr(C)]
pub struct TVMFFISeqCell {
    /// First element ([`TVMFFIAny`], owned).
    pub data: *mut c_void,
    /// Number of elements.
    pub size: i64,
    /// Capacity in elements.
    pub capacity: i64,
    /// Frees `data` if it is separate from the object; NULL (`None`) if it is inside the object.
    pub data_deleter: Option<unsafe extern "C" fn(data: *mut c_void)>,
}

/// Fields of a map or dict, after the object header. The dense form has three more fields; see the
/// specification of the layout in `embedded::map`.
#[repr(C)]
pub struct TVMFFIMapCell {
    /// Key-value pairs (small form) or blocks (dense form).
    pub data: *mut c_void,
    /// Number of entries.
    pub size: u64,
    /// Number of slots; bit 63 marks the small form.
    pub slots: u64,
    /// Frees `data` if it is separate from the object.
    pub data_deleter: Option<unsafe extern "C" fn(data: *mut c_void)>,
}

/// Fields of an error, after the object header.
#[repr(C)]
pub struct TVMFFIErrorCell {
    /// Class of the error, for example `ValueError`.
    pub kind: TVMFFIByteArray,
    /// Description of the problem; NUL-terminated.
    pub message: TVMFFIByteArray,
    /// One line per frame, most recent call first.
    pub backtrace: TVMFFIByteArray,
    /// Replaces or appends to the backtrace; see [`backtrace_update`].
    pub update_backtrace:
        Option<unsafe extern "C" fn(this: TVMFFIObjectHandle, backtrace: *const TVMFFIByteArray, mode: i32)>,
    /// The error that caused this one; owned, may be NULL.
    pub cause_chain: TVMFFIObjectHandle,
    /// Frontend data; owned, may be NULL.
    pub extra_context: TVMFFIObjectHandle,
}

/// Modes of [`TVMFFIErrorCell::update_backtrace`].
pub mod backtrace_update {
    /// Replace the backtrace.
    pub const REPLACE: i32 = 0;
    /// Append to the backtrace.
    pub const APPEND: i32 = 1;
}

/// Fields of a function, after the object header.
#[repr(C)]
pub struct TVMFFIFunctionCell {
    /// The entry point; receives the function object's handle.
    pub safe_call: Option<SafeCall>,
    /// C++ entry point that throws; this implementation never calls it and sets it to NULL.
    pub cpp_call: *mut c_void,
}

/// Fields of an opaque object, after the object header.
#[repr(C)]
pub struct TVMFFIOpaqueObjectCell {
    /// The foreign object.
    pub handle: *mut c_void,
}

/// Fields of a big integer, after the object header. The words follow this struct, least
/// significant first, in two's complement.
#[repr(C)]
pub struct TVMFFIBigIntCell {
    /// Number of 64-bit words, at least 2.
    pub num_words: usize,
}

/// Fields of a module, after the object header. A C++ vtable pointer is stored 8 bytes before the
/// header.
#[repr(C)]
pub struct TVMFFIModuleCell {
    /// Array of the imported modules; owned, not NULL.
    pub imports: TVMFFIObjectHandle,
    /// Map from name to function found in the imports; owned, not NULL.
    pub import_lookup_cache: TVMFFIObjectHandle,
}

assert_layout!(TVMFFIShapeCell, size = 16, align = 8, { data @ 0, size @ 8 });
assert_layout!(TVMFFISeqCell, size = 32, align = 8, { data @ 0, size @ 8, capacity @ 16, data_deleter @ 24 });
assert_layout!(TVMFFIMapCell, size = 32, align = 8, { data @ 0, size @ 8, slots @ 16, data_deleter @ 24 });
assert_layout!(TVMFFIErrorCell, size = 72, align = 8, {
    kind @ 0, message @ 16, backtrace @ 32, update_backtrace @ 48, cause_chain @ 56, extra_context @ 64,
});
assert_layout!(TVMFFIFunctionCell, size = 16, align = 8, { safe_call @ 0, cpp_call @ 8 });
assert_layout!(TVMFFIOpaqueObjectCell, size = 8, align = 8, { handle @ 0 });
assert_layout!(TVMFFIBigIntCell, size = 8, align = 8, { num_words @ 0 });
assert_layout!(TVMFFIModuleCell, size = 16, align = 8, { imports @ 0, import_lookup_cache @ 8 });
