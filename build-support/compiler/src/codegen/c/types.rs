//! The C names of types.

use kernpack::DataType;

use crate::error::{Result, require};
use crate::ir::DataTypeExt;

/// Rejects types that C does not have.
pub(super) fn check(dtype: DataType) -> Result<()> {
    let known = match (dtype.is_integer(), dtype.is_float(), dtype.is_bool(), dtype.is_handle()) {
        (true, ..) => matches!(dtype.bits(), 8 | 16 | 32 | 64),
        (_, true, ..) => matches!((dtype.is_bfloat(), dtype.bits()), (true, 16) | (false, 16 | 32 | 64)),
        (_, _, is_bool, is_handle) => is_bool || is_handle && dtype.lanes() <= 1,
    };
    require!(known, Target, "C has no values of type {}", dtype.short_name());
    Ok(())
}

/// Returns true if values are represented in single precision and rounded after each operation.
pub(super) fn is_half(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 16
}

/// The type of a scalar in a local variable.
pub(super) fn scalar(dtype: DataType) -> String {
    match (dtype.is_int(), dtype.is_uint(), dtype.is_float(), dtype.bits()) {
        (true, _, _, bits) => format!("int{bits}_t"),
        (_, true, _, bits) => format!("uint{bits}_t"),
        (_, _, true, 64) => "double".to_owned(),
        (_, _, true, _) => "float".to_owned(),
        _ if dtype.is_bool() => "_Bool".to_owned(),
        _ => "void*".to_owned(),
    }
}

/// The type of a lane of a vector: truth values are 0 and -1.
pub(super) fn lane(dtype: DataType) -> String {
    if dtype.is_bool() { "int8_t".to_owned() } else { scalar(dtype) }
}

/// The type of an element in memory, without permission to alias other types.
pub(super) fn stored(dtype: DataType) -> String {
    match () {
        () if dtype.is_bool() => "uint8_t".to_owned(),
        () if is_half(dtype) => "uint16_t".to_owned(),
        () => scalar(dtype),
    }
}

/// The width in bits of the signed integers that are the lanes of a comparison of vectors of this
/// type.
pub(super) fn lane_bits(dtype: DataType) -> u16 {
    match () {
        () if dtype.is_bool() => 8,
        () if is_half(dtype) => 32,
        () => u16::from(dtype.bits()),
    }
}

/// Returns true if GNU C supports vectors of this type.
pub(super) fn is_native(dtype: DataType) -> bool {
    dtype.lanes().is_power_of_two()
        && dtype.lanes() > 1
        && u32::from(dtype.lanes()) * u32::from(lane_bits(dtype)) <= 1 << 16
}

/// A lane of a vector.
pub(super) fn at(dtype: DataType, vector: &str, index: &str) -> String {
    if is_native(dtype) { format!("KP_AT({vector}, {index})") } else { format!("{vector}.v[{index}]") }
}
