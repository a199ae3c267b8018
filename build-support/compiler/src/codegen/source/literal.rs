//! Constants.

use kernpack::DataType;

use super::vocabulary::Vocabulary;
use crate::codegen::number::hex;
use crate::ir::DataTypeExt;

/// An integer. The type of the literal has at least as many bits as `dtype`.
pub(super) fn integer(words: &Vocabulary, dtype: DataType, value: i64) -> String {
    if dtype.is_bool() {
        return if value == 0 { "false" } else { "true" }.to_owned();
    }
    let long = words.long;
    match (dtype.is_uint(), dtype.bits()) {
        (true, 64) => format!("{}U{long}", value as u64),
        (true, 32) => format!("{}U", value as u32),
        (false, 64) if value == i64::MIN => format!("(-{}{long} - 1)", i64::MAX),
        (false, 64) if value < 0 => format!("({value}{long})"),
        (false, 64) => format!("{value}{long}"),
        (false, 32) if value == i64::from(i32::MIN) => format!("(-{} - 1)", i32::MAX),
        _ if value < 0 => format!("({value})"),
        _ => value.to_string(),
    }
}

/// A finite floating point number, written exactly; half precisions are represented in single
/// precision.
pub(super) fn float(dtype: DataType, value: f64) -> String {
    let suffix = if dtype.bits() == 64 { "" } else { "f" };
    let simple = value.abs() < 1e6 && (value * 64.0).fract() == 0.0;
    let digits = if simple { format!("{value:?}") } else { hex(value) };
    if value.is_sign_negative() { format!("({digits}{suffix})") } else { format!("{digits}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{CUDA, OPENCL};
    use super::{float, integer};
    use crate::ir::{BOOLEAN, F32, F64, I8, I32, I64, U64};

    #[test]
    fn constants_are_exact() {
        assert_eq!(float(F32, 0.5), "0.5f");
        assert_eq!(float(F64, -0.1), "(-0x1.999999999999ap-4)");
        assert_eq!(integer(&OPENCL, I64, i64::MIN), "(-9223372036854775807L - 1)");
        assert_eq!(integer(&CUDA, I64, 3), "3LL");
        assert_eq!(integer(&OPENCL, I32, -2147483648), "(-2147483647 - 1)");
        assert_eq!(integer(&OPENCL, I8, -1), "(-1)");
        assert_eq!(integer(&CUDA, U64, -1), "18446744073709551615ULL");
        assert_eq!(integer(&OPENCL, BOOLEAN, 1), "true");
    }
}
