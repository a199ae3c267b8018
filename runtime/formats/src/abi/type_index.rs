//! Static type indices. Values with an index below [`STATIC_OBJECT_BEGIN`] are stored inline; the
//! others are objects.

/// Annotation only: "any value". Never the index of a value.
pub const ANY: i32 = -1;
/// No value.
pub const NONE: i32 = 0;
/// 64-bit signed integer.
pub const INT: i32 = 1;
/// Boolean, payload 0 or 1.
pub const BOOL: i32 = 2;
/// 64-bit floating point number.
pub const FLOAT: i32 = 3;
/// Untyped pointer.
pub const OPAQUE_PTR: i32 = 4;
/// `DLDataType` by value.
pub const DATA_TYPE: i32 = 5;
/// `DLDevice` by value.
pub const DEVICE: i32 = 6;
/// Borrowed `DLTensor*`.
pub const DL_TENSOR_PTR: i32 = 7;
/// Borrowed NUL-terminated string. Views only.
pub const RAW_STR: i32 = 8;
/// Borrowed `TVMFFIByteArray*`. Views only.
pub const BYTE_ARRAY_PTR: i32 = 9;
/// Pointer to an object pointer that the callee may move out. Views only.
pub const OBJECT_RVALUE_REF: i32 = 10;
/// String of at most 7 bytes inside the value.
pub const SMALL_STR: i32 = 11;
/// Bytes, at most 7, inside the value.
pub const SMALL_BYTES: i32 = 12;
/// Structural mutation produced no new value (since header 0.1.15).
pub const UNCHANGED: i32 = 13;
/// First index of reference-counted objects.
pub const STATIC_OBJECT_BEGIN: i32 = 64;
/// `ffi.Object`, the root.
pub const OBJECT: i32 = 64;
/// `ffi.String`.
pub const STR: i32 = 65;
/// `ffi.Bytes`.
pub const BYTES: i32 = 66;
/// `ffi.Error`.
pub const ERROR: i32 = 67;
/// `ffi.Function`.
pub const FUNCTION: i32 = 68;
/// `ffi.Shape`.
pub const SHAPE: i32 = 69;
/// `ffi.Tensor`.
pub const TENSOR: i32 = 70;
/// `ffi.Array`.
pub const ARRAY: i32 = 71;
/// `ffi.Map`.
pub const MAP: i32 = 72;
/// `ffi.Module`.
pub const MODULE: i32 = 73;
/// `ffi.OpaquePyObject`.
pub const OPAQUE_PY_OBJECT: i32 = 74;
/// `ffi.List`.
pub const LIST: i32 = 75;
/// `ffi.Dict`.
pub const DICT: i32 = 76;
/// `ffi.VisitInterrupt`.
pub const VISIT_INTERRUPT: i32 = 77;
/// `ffi.BigInt` (since header 0.1.15).
pub const BIG_INT: i32 = 78;
/// One past the last static object index.
pub const STATIC_OBJECT_END: i32 = 79;
/// First index that is allocated at run time.
pub const DYN_OBJECT_BEGIN: i32 = 128;
