//! Constants.

use kernpack::DataType;

use super::vocabulary::Vocabulary;
use crate::codegen::number::hex;
use crate::ir::DataTypeExt;

/// An integer. The type of the literal has at least as many bits as `dtype`.
pub(crate) fn integer(words: &Vocabulary, dtype: DataType, value: i64) -> String {
    if dtype.is_bool() {
        return words.truths[usize::from(value != 0)].to_owned();
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
pub(crate) fn float(dtype: DataType, value: f64) -> String {
    let suffix = if dtype.bits() == 64 { "" } else { "f" };
    let simple = value.abs() < 1e6 && (value * 64.0).fract() == 0.0;
    let digits = if simple { format!("{value:?}") } else { hex(value) };
    if value.is_sign_negative() { format!("({digits}{suffix})") } else { format!("{digits}{suffix}") }
}

/// A string literal.
pub(crate) fn text(value: &str) -> String {
    let mut literal = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' => literal.push_str("\\\""),
            b'\\' => literal.push_str("\\\\"),
            b'\n' => literal.push_str("\\n"),
            // Three octal digits are self-delimiting; `?` could start a trigraph.
            b'?' | 0..=31 | 127.. => literal.push_str(&format!("\\{byte:03o}")),
            _ => literal.push(char::from(byte)),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{C, CUDA, OPENCL};
    use super::{float, integer, text};
    use crate::codegen::number::hex;
    use crate::ir::{BOOLEAN, F32, F64, I8, I32, I64, U64};

    #[test]
    fn constants_are_exact() {
        assert_eq!(hex(1.5), "0x1.8p+0");
        assert_eq!(hex(-0.1), "-0x1.999999999999ap-4");
        assert_eq!(hex(f64::from_bits(1)), "0x0.0000000000001p-1022");
        assert_eq!(float(F32, 0.5), "0.5f");
        assert_eq!(float(F64, -0.0), "(-0.0)");
        assert_eq!(float(F64, -0.1), "(-0x1.999999999999ap-4)");
        assert_eq!(float(F32, f64::from(f32::MAX)), "0x1.fffffep+127f");
        assert_eq!(integer(&C, I64, i64::MIN), "(-9223372036854775807LL - 1)");
        assert_eq!(integer(&OPENCL, I64, i64::MIN), "(-9223372036854775807L - 1)");
        assert_eq!(integer(&CUDA, I64, 3), "3LL");
        assert_eq!(integer(&C, I32, -2147483648), "(-2147483647 - 1)");
        assert_eq!(integer(&OPENCL, I8, -1), "(-1)");
        assert_eq!(integer(&C, U64, -1), "18446744073709551615ULL");
        assert_eq!(integer(&OPENCL, BOOLEAN, 1), "true");
        assert_eq!(integer(&C, BOOLEAN, 1), "1");
        assert_eq!(text("a\"b\\\n?é"), "\"a\\\"b\\\\\\n\\077\\303\\251\"");
    }
}
