use core::ffi::{c_char, c_void};

use super::assert_layout;

/// Version of the DLPack ABI of a managed tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Major version; versions that differ are incompatible.
    pub major: u32,
    /// Minor version, for compatible additions.
    pub minor: u32,
}

/// A device: kind and index.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// One of [`device_type`], an integer because foreign code may use its own values.
    pub device_type: i32,
    /// Index among the devices of that kind, from 0.
    pub device_id: i32,
}

/// Element type: code, bits and vector lanes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataType {
    /// One of [`dtype_code`].
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Vector lanes; negative as i16 for scalable vectors.
    pub lanes: u16,
}

/// Kinds of devices.
pub mod device_type {
    #![allow(missing_docs, reason = "the names say it all; see dlpack.h")]
    pub const CPU: i32 = 1;
    pub const CUDA: i32 = 2;
    pub const CUDA_HOST: i32 = 3;
    pub const OPENCL: i32 = 4;
    pub const VULKAN: i32 = 7;
    pub const METAL: i32 = 8;
    pub const VPI: i32 = 9;
    pub const ROCM: i32 = 10;
    pub const ROCM_HOST: i32 = 11;
    pub const EXT_DEV: i32 = 12;
    pub const CUDA_MANAGED: i32 = 13;
    pub const ONE_API: i32 = 14;
    pub const WEBGPU: i32 = 15;
    pub const HEXAGON: i32 = 16;
    pub const MAIA: i32 = 17;
    pub const TRN: i32 = 18;
}

/// Codes of element types.
pub mod dtype_code {
    #![allow(missing_docs, reason = "the names say it all; see dlpack.h")]
    pub const INT: u8 = 0;
    pub const UINT: u8 = 1;
    pub const FLOAT: u8 = 2;
    pub const OPAQUE_HANDLE: u8 = 3;
    pub const BFLOAT: u8 = 4;
    pub const COMPLEX: u8 = 5;
    pub const BOOL: u8 = 6;
    pub const FLOAT8_E3M4: u8 = 7;
    pub const FLOAT8_E4M3: u8 = 8;
    pub const FLOAT8_E4M3B11FNUZ: u8 = 9;
    pub const FLOAT8_E4M3FN: u8 = 10;
    pub const FLOAT8_E4M3FNUZ: u8 = 11;
    pub const FLOAT8_E5M2: u8 = 12;
    pub const FLOAT8_E5M2FNUZ: u8 = 13;
    pub const FLOAT8_E8M0FNU: u8 = 14;
    pub const FLOAT6_E2M3FN: u8 = 15;
    pub const FLOAT6_E3M2FN: u8 = 16;
    pub const FLOAT4_E2M1FN: u8 = 17;
}

/// A borrowed tensor. Shape and strides count elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    /// Start of the data on `device`; the first element is at `byte_offset`.
    pub data: *mut c_void,
    /// Device of the data.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// `ndim` dimensions; may be NULL when `ndim` is 0.
    pub shape: *mut i64,
    /// `ndim` strides in elements; NULL (before DLPack 1.2) means row major.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with its owner (before DLPack 1.0).
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's data.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor, including this struct; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(this: *mut DLManagedTensor)>,
}

/// A tensor with its owner and flags (DLPack 1.0 and later).
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The producer's version.
    pub version: DLPackVersion,
    /// The owner's data.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor, including this struct; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(this: *mut DLManagedTensorVersioned)>,
    /// Bits of [`dlpack_flags`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// Bits of [`DLManagedTensorVersioned::flags`].
pub mod dlpack_flags {
    /// The consumer must not write.
    pub const READ_ONLY: u64 = 1;
    /// The data is a copy that the producer made.
    pub const IS_COPIED: u64 = 2;
    /// Elements smaller than a byte occupy a whole byte.
    pub const IS_SUBBYTE_TYPE_PADDED: u64 = 4;
}

/// Callback with which an allocator reports a failure: error context, kind, message.
pub type DLPackSetError = unsafe extern "C" fn(error_ctx: *mut c_void, kind: *const c_char, message: *const c_char);

/// Allocates a tensor like `prototype` (ignoring data, strides and offset) with a frontend's
/// allocator; returns 0 on success.
pub type DLPackManagedTensorAllocator = unsafe extern "C" fn(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    error_ctx: *mut c_void,
    set_error: DLPackSetError,
) -> i32;

assert_layout!(DLPackVersion, size = 8, align = 4, { major @ 0, minor @ 4 });
assert_layout!(DLDevice, size = 8, align = 4, { device_type @ 0, device_id @ 4 });
assert_layout!(DLDataType, size = 4, align = 2, { code @ 0, bits @ 1, lanes @ 2 });
assert_layout!(DLTensor, size = 48, align = 8, {
    data @ 0, device @ 8, ndim @ 16, dtype @ 20, shape @ 24, strides @ 32, byte_offset @ 40,
});
assert_layout!(DLManagedTensor, size = 64, align = 8, { dl_tensor @ 0, manager_ctx @ 48, deleter @ 56 });
assert_layout!(DLManagedTensorVersioned, size = 80, align = 8, {
    version @ 0, manager_ctx @ 8, deleter @ 16, flags @ 24, dl_tensor @ 32,
});
