//! Constants as text.

use crate::ir::builder::round_float;
use crate::ir::{BOOLEAN, DataType, DataTypeExt, F32, I64};

/// An integer: i64 without a suffix, truth values by name.
pub(super) fn int(dtype: DataType, value: i64) -> String {
    match (dtype, value) {
        (BOOLEAN, 0) => "false".to_owned(),
        (BOOLEAN, 1) => "true".to_owned(),
        (I64, _) => value.to_string(),
        _ if dtype.is_uint() => format!("{}{}", value as u64, dtype.short_name()),
        _ => format!("{value}{}", dtype.short_name()),
    }
}

/// A float, exactly: single precision without a suffix, unless it is `plain`. With a suffix, the
/// digits are those of the intended double.
pub(super) fn float(dtype: DataType, value: f64, plain: bool) -> String {
    let bare = plain || dtype == F32;
    if value.is_nan() || value.is_infinite() {
        let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
        let name = if value.is_nan() { "nan" } else { "inf" };
        return if bare { format!("{sign}{name}") } else { format!("{sign}{name}_{}", dtype.short_name()) };
    }
    if dtype == F32 && !plain && round_float(F32, value) == value {
        return format!("{:?}", value as f32);
    }
    if plain { format!("{value:?}") } else { format!("{value:?}{}", dtype.short_name()) }
}
