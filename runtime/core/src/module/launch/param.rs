use super::float::FloatFormat;
use crate::abi::dtype_code;
use crate::module::device_image::ArgType;

/// The check and conversion of an argument, determined once from the function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Pointer,
    TensorMap,
    /// An integer of 1, 2, 4 or 8 bytes.
    Signed(u8),
    Unsigned(u8),
    Bool,
    Float64,
    Float32,
    Narrow(&'static FloatFormat),
    /// A type that cannot be an argument.
    Unsupported(ArgType),
}

impl Param {
    #[inline]
    pub(super) fn new(ty: ArgType, extra_tag: i32) -> Self {
        match (extra_tag, ty.code, ty.bits, ty.lanes) {
            (1, ArgType::POINTER_CODE, 64, 1) => Self::TensorMap,
            (0, ArgType::POINTER_CODE, 64, 1) => Self::Pointer,
            (0, dtype_code::INT, 8 | 16 | 32 | 64, 1) => Self::Signed(ty.bits / 8),
            (0, dtype_code::UINT, 8 | 16 | 32 | 64, 1) => Self::Unsigned(ty.bits / 8),
            // TVM before 0.20 wrote bool as an unsigned integer of one bit.
            (0, dtype_code::BOOL, 8, 1) | (0, dtype_code::UINT, 1, 1) => Self::Bool,
            (0, dtype_code::FLOAT, 64, 1) => Self::Float64,
            (0, dtype_code::FLOAT, 32, 1) => Self::Float32,
            (0, code, bits, 1) => FloatFormat::of(code, bits).map_or(Self::Unsupported(ty), Self::Narrow),
            _ => Self::Unsupported(ty),
        }
    }
}
