use super::{DLDataType, DLDevice, TVMFFIObject, assert_layout, type_index};

/// A value of any type: 16 bytes, a type index and a payload.
///
/// An argument (a *view*) borrows its object; a result or container element (*owned*) holds one
/// strong reference if `type_index >= 64`. Invariants: `small_len` is 0 except for small strings
/// and bytes, None has payload 0, a bool payload is exactly 0 or 1 in all 64 bits, a data type's
/// upper four payload bytes are 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIAny {
    /// Type of the payload; see [`type_index`].
    pub type_index: i32,
    /// Length of a small string or small bytes; 0 for all other types.
    pub small_len: u32,
    /// The payload.
    pub payload: TVMFFIAnyPayload,
}

/// The payload of a [`TVMFFIAny`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union TVMFFIAnyPayload {
    /// Integers and booleans.
    pub v_int64: i64,
    /// Floating point numbers.
    pub v_float64: f64,
    /// Untyped pointers.
    pub v_ptr: *mut core::ffi::c_void,
    /// NUL-terminated strings.
    pub v_c_str: *const core::ffi::c_char,
    /// Objects.
    pub v_obj: *mut TVMFFIObject,
    /// Data types.
    pub v_dtype: DLDataType,
    /// Devices.
    pub v_device: DLDevice,
    /// Small strings and bytes.
    pub v_bytes: [u8; 8],
    /// All 64 bits, for hashing and comparing.
    pub v_uint64: u64,
}

impl TVMFFIAny {
    /// No value.
    pub const NONE: Self = Self::int_like(type_index::NONE, 0);

    #[inline]
    const fn int_like(type_index: i32, value: i64) -> Self {
        Self { type_index, small_len: 0, payload: TVMFFIAnyPayload { v_int64: value } }
    }

    /// An integer.
    #[inline]
    pub const fn int(value: i64) -> Self {
        Self::int_like(type_index::INT, value)
    }

    /// A boolean.
    #[inline]
    pub const fn bool(value: bool) -> Self {
        Self::int_like(type_index::BOOL, value as i64)
    }

    /// A floating point number.
    #[inline]
    pub const fn float(value: f64) -> Self {
        Self { type_index: type_index::FLOAT, small_len: 0, payload: TVMFFIAnyPayload { v_float64: value } }
    }

    /// A pointer with any type index: an object, an opaque pointer, a `DLTensor*`, a byte array.
    #[inline]
    pub const fn pointer(type_index: i32, value: *mut core::ffi::c_void) -> Self {
        /// The value in two words. Two writes of half a word each could not be forwarded to a read
        /// of the whole word.
        #[repr(C)]
        struct Words {
            head: u64,
            payload: *mut core::ffi::c_void,
        }
        let index = type_index.cast_unsigned() as u64;
        let head = if cfg!(target_endian = "little") { index } else { index << 32 };
        // SAFETY: both types are 16 bytes of plain data, and the index is the half of the first
        // word that has the lower address.
        unsafe { core::mem::transmute(Words { head, payload: value }) }
    }

    /// All 64 payload bits.
    #[inline]
    pub const fn bits(&self) -> u64 {
        // SAFETY: every union member is plain data that covers at most these 8 bytes, and all
        // constructors write all 8.
        unsafe { self.payload.v_uint64 }
    }
}

/// Borrowed bytes: pointer and length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TVMFFIByteArray {
    /// First byte; may be NULL when `size` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub size: usize,
}

impl TVMFFIByteArray {
    /// No bytes.
    pub const EMPTY: Self = Self { data: core::ptr::null(), size: 0 };

    /// Borrows `bytes`; the caller keeps them alive.
    #[inline]
    pub const fn new(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// `data` points to `size` initialized bytes that live and stay unchanged for `'a`.
    #[inline]
    pub const unsafe fn as_slice<'a>(self) -> &'a [u8] {
        if self.size == 0 || self.data.is_null() {
            return &[];
        }
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts(self.data, self.size) }
    }
}

assert_layout!(TVMFFIAny, size = 16, align = 8, { type_index @ 0, small_len @ 4, payload @ 8 });
assert_layout!(TVMFFIByteArray, size = 16, align = 8, { data @ 0, size @ 8 });
