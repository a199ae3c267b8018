//! Data types as text: `float32`, `uint8x4`, `bfloat16xvscalex4`, `float8_e4m3fn`, `custom[name]8`,
//! and their aliases.
//!
//! ```
//! use kernpack::sys::embedded::dtype;
//! let four_lanes = dtype::parse("bf16x4").unwrap();
//! assert_eq!((four_lanes.bits, four_lanes.lanes), (16, 4));
//! assert_eq!(dtype::format(four_lanes).unwrap(), "bfloat16x4");
//! ```

use crate::abi::{DLDataType, TVMFFIAny, TVMFFIObject, dtype_code, type_index};

use super::failure::Failure;
use super::release::release;
use super::{any_hash, dec_ref, new_string, new_string_object, text_of};

/// First code of types that a frontend defines.
const CUSTOM_BEGIN: u8 = 129;

// The tables are read in loops with `black_box`: unrolled, the comparisons would be code in every
// library.

/// Codes that are written as a name, followed by bits and lanes.
static SIZED: &[(u8, &str, u8)] = &[
    (dtype_code::INT, "int", 32),
    (dtype_code::UINT, "uint", 32),
    (dtype_code::FLOAT, "float", 32),
    (dtype_code::OPAQUE_HANDLE, "handle", 64),
    (dtype_code::BFLOAT, "bfloat", 16),
    (dtype_code::BOOL, "bool", 8),
];

/// Codes whose name includes the bits: the name after `float`, and the bits.
static NARROW_FLOATS: &[(u8, &str, u8)] = &[
    (dtype_code::FLOAT8_E3M4, "8_e3m4", 8),
    (dtype_code::FLOAT8_E4M3, "8_e4m3", 8),
    (dtype_code::FLOAT8_E4M3B11FNUZ, "8_e4m3b11fnuz", 8),
    (dtype_code::FLOAT8_E4M3FN, "8_e4m3fn", 8),
    (dtype_code::FLOAT8_E4M3FNUZ, "8_e4m3fnuz", 8),
    (dtype_code::FLOAT8_E5M2, "8_e5m2", 8),
    (dtype_code::FLOAT8_E5M2FNUZ, "8_e5m2fnuz", 8),
    (dtype_code::FLOAT8_E8M0FNU, "8_e8m0fnu", 8),
    (dtype_code::FLOAT6_E2M3FN, "6_e2m3fn", 6),
    (dtype_code::FLOAT6_E3M2FN, "6_e3m2fn", 6),
    (dtype_code::FLOAT4_E2M1FN, "4_e2m1fn", 4),
];

/// No type: the value of "" and "void".
const VOID: DLDataType = DLDataType { code: dtype_code::OPAQUE_HANDLE, bits: 0, lanes: 0 };

/// Parses a data type.
///
/// # Errors
/// `ValueError` with the text that cannot be parsed; errors of the frontend's lookup of custom
/// types.
pub fn parse(text: impl AsRef<[u8]>) -> Result<DLDataType, Failure> {
    parse_bytes(text.as_ref())
}

fn parse_bytes(text: &[u8]) -> Result<DLDataType, Failure> {
    if text.is_empty() || text == b"void" {
        return Ok(VOID);
    }
    let (prefix, suffix) = full_name(text);
    let long;
    let text = if prefix.is_empty() {
        text
    } else {
        long = [prefix, suffix].concat();
        &long
    };
    if let Some(rest) = text.strip_prefix(b"float")
        && matches!(rest, [b'8' | b'6' | b'4', b'_', ..])
    {
        return parse_narrow_float(text, rest);
    }
    let (code, default_bits, rest) = if text.starts_with(b"custom") {
        let (code, rest) = parse_custom(text)?;
        (code, 32, rest)
    } else {
        let known = core::hint::black_box(SIZED)
            .iter()
            .find_map(|(code, name, bits)| Some((*code, *bits, text.strip_prefix(name.as_bytes())?)));
        known.ok_or_else(|| unknown(text))?
    };
    let (bits, rest) = take_number(rest)?;
    let Ok(bits) = u8::try_from(bits) else {
        let message = format!("Bits value {bits} is out of range for uint8_t in dtype '");
        return Err(Failure::of_parts("ValueError", &[message.as_bytes(), text, b"'"]));
    };
    let bits = if bits == 0 { default_bits } else { bits };
    // `xvscalex4` means -4 lanes. A lone `xvscale` is ignored, and numbers wrap around, as in C++.
    let lanes = match rest.strip_prefix(b"xvscale") {
        Some([]) => 1,
        Some(rest) => parse_lanes(text, rest)?.wrapping_neg(),
        None => parse_lanes(text, rest)?,
    };
    Ok(DLDataType { code, bits, lanes })
}

/// Expands a short name (`i8`, `u8`, `f16`, `bf16`, `f8_...`, `fp8_...`): returns a prefix and the
/// rest of the name. The prefix is empty if the name is not short.
fn full_name(text: &[u8]) -> (&'static [u8], &[u8]) {
    const ALIASES: [(&[u8], &[u8]); 4] = [(b"i", b"int"), (b"u", b"uint"), (b"bf", b"bfloat"), (b"f", b"float")];
    for (alias, name) in ALIASES {
        if let Some(rest) = text.strip_prefix(alias)
            && rest.first().is_some_and(u8::is_ascii_digit)
        {
            return (name, rest);
        }
    }
    match text.strip_prefix(b"fp") {
        Some(rest @ [b'8' | b'6' | b'4', b'_', ..]) => (b"float", rest),
        _ => (b"", text),
    }
}

#[inline(never)]
fn parse_narrow_float(text: &[u8], rest: &[u8]) -> Result<DLDataType, Failure> {
    for &(code, name, bits) in core::hint::black_box(NARROW_FLOATS) {
        let Some(lanes) = rest.strip_prefix(name.as_bytes()) else { continue };
        let lanes = match lanes {
            // PyTorch writes float4_e2m1fn_x2.
            [b'_', lanes @ ..] if bits == 4 => lanes,
            [] | [b'x', ..] => lanes,
            _ => continue,
        };
        return Ok(DLDataType { code, bits, lanes: parse_lanes(text, lanes)? });
    }
    Err(Failure::of_parts("ValueError", &[b"unknown float", &rest[..1], b" type `", text, b"`"]))
}

/// The code, and the text after `custom[name]`.
#[cold]
#[inline(never)]
fn parse_custom(text: &[u8]) -> Result<(u8, &[u8]), Failure> {
    let Some(rest) = text.strip_prefix(b"custom[") else {
        return Err(Failure::of_parts("ValueError", &[b"expected opening brace after 'custom' type in", text]));
    };
    let Some(end) = rest.iter().position(|byte| *byte == b']') else {
        return Err(Failure::of_parts("ValueError", &[b"expected closing brace after 'custom' type in", text]));
    };
    let argument = new_string(&rest[..end]);
    let code = call_global("dtype.get_custom_type_code", argument)?;
    if !matches!(code.type_index, type_index::INT | type_index::BOOL) {
        // SAFETY: the result is owned.
        unsafe { release(code) };
        return Err(Failure::type_error("dtype.get_custom_type_code must return an int"));
    }
    Ok((code.bits() as u8, &rest[end + 1..]))
}

/// Parses leading decimal digits (0 if there are none); returns the rest, too.
#[inline(never)]
fn take_number(text: &[u8]) -> Result<(u32, &[u8]), Failure> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(len);
    let number = digits.iter().fold(0_u64, |number, digit| number.wrapping_mul(10).wrapping_add((digit - b'0').into()));
    match u32::try_from(number) {
        Ok(number) => Ok((number, rest)),
        Err(_) => Err(Failure::of_parts(
            "ValueError",
            &[b"Integer value in dtype string '", digits, b"' is out of range for uint32_t"],
        )),
    }
}

/// Parses `x` and the number of lanes, up to the end of the text; 1 if absent.
#[inline(never)]
fn parse_lanes(text: &[u8], rest: &[u8]) -> Result<u16, Failure> {
    let Some(digits) = rest.strip_prefix(b"x") else {
        return if rest.is_empty() { Ok(1) } else { Err(unknown(text)) };
    };
    let (lanes, rest) = take_number(digits)?;
    if lanes == 0 {
        return Err(Failure::of_parts(
            "ValueError",
            &[b"Invalid lanes specification in dtype '", text, b"'. Lanes must be a positive integer."],
        ));
    }
    let Ok(lanes) = u16::try_from(lanes) else {
        let message = format!("Lanes value {lanes} is out of range for uint16_t in dtype '");
        return Err(Failure::of_parts("ValueError", &[message.as_bytes(), text, b"'"]));
    };
    if rest.is_empty() { Ok(lanes) } else { Err(unknown(text)) }
}

#[track_caller]
fn unknown(text: &[u8]) -> Failure {
    Failure::of_parts("ValueError", &[b"unknown dtype `", text, b"`"])
}

/// Formats a data type.
///
/// # Errors
/// `ValueError` for an undefined code; errors of the frontend's lookup of custom types.
pub fn format(dtype: DLDataType) -> Result<String, Failure> {
    with_text(dtype, |text| String::from_utf8_lossy(text).into_owned())
}

/// The text of a data type as a string object, even if it is short; the caller owns the reference.
///
/// # Errors
/// As for [`format()`].
pub fn new_text_object(dtype: DLDataType) -> Result<*mut TVMFFIObject, Failure> {
    with_text(dtype, new_string_object)
}

/// A text with room for the longest name of a data type, with bits and lanes.
struct ShortText {
    bytes: [u8; 48],
    len: usize,
}

impl ShortText {
    #[inline(never)]
    fn push(&mut self, text: &str) {
        let end = self.len + text.len();
        self.bytes[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
    }

    #[inline(never)]
    fn push_number(&mut self, number: u32) {
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.bytes[self.len] = b'0' + (number / unit % 10) as u8;
            self.len += 1;
            unit /= 10;
        }
    }
}

fn with_text<T>(dtype: DLDataType, run: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
    let mut text = ShortText { bytes: [0; 48], len: 0 };
    let custom = write(dtype, &mut text)?;
    let text = &text.bytes[..text.len];
    let joined;
    // A single call, because it is inlined.
    Ok(run(if custom.is_empty() {
        text
    } else {
        joined = [&custom, text].concat();
        &joined
    }))
}

/// Formats a data type, and returns the prefix of a custom type separately.
fn write(dtype: DLDataType, text: &mut ShortText) -> Result<Vec<u8>, Failure> {
    if dtype == VOID {
        return Ok(Vec::new());
    }
    let custom = dtype.code >= CUSTOM_BEGIN;
    if let Some((_, name, _)) = core::hint::black_box(SIZED).iter().find(|(known, ..)| *known == dtype.code) {
        text.push(name);
    } else if let Some((_, name, _)) =
        core::hint::black_box(NARROW_FLOATS).iter().find(|(known, ..)| *known == dtype.code)
    {
        text.push("float");
        text.push(name);
    } else if !custom {
        let code = u32::from(dtype.code);
        return Err(Failure::value(format_args!("DLDataType contains unknown type_code={code}")));
    }
    if dtype.code == dtype_code::OPAQUE_HANDLE {
        return Ok(Vec::new());
    }
    let is_plain_bool = (dtype.code, dtype.bits) == (dtype_code::BOOL, 8);
    // Custom types follow the narrow floats, so they have no bits either.
    if dtype.code < dtype_code::FLOAT8_E3M4 && !is_plain_bool {
        text.push_number(dtype.bits.into());
    }
    let lanes = i32::from(dtype.lanes as i16);
    if lanes > 1 {
        text.push("x");
        text.push_number(lanes as u32);
    } else if lanes < -1 {
        text.push("xvscalex");
        text.push_number(lanes.unsigned_abs());
    }
    if custom { custom_name(dtype.code) } else { Ok(Vec::new()) }
}

/// Formats `custom[name]`.
fn custom_name(code: u8) -> Result<Vec<u8>, Failure> {
    let name = call_global("dtype.get_custom_type_name", TVMFFIAny::int(code.into()))?;
    // SAFETY: the result is owned and alive until it is released.
    unsafe {
        let text = text_of(&name).map(|text| [b"custom[", text, b"]"].concat());
        release(name);
        text.ok_or_else(|| Failure::type_error("dtype.get_custom_type_name must return a string"))
    }
}

/// Calls a global function of the implementation that serves the process, with one argument, which
/// is released.
fn call_global(name: &str, argument: TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    let array = crate::abi::TVMFFIByteArray::new(name.as_bytes());
    let mut function = core::ptr::null_mut();
    // SAFETY: the name lives during the call, which gives us a reference or NULL; the argument is
    // ours.
    unsafe {
        let status = (super::serving::serving().function_get_global)(&raw const array, &raw mut function);
        let result = if status != 0 {
            Err(Failure::take_raised())
        } else if function.is_null() {
            Err(Failure::value(format_args!("Function {name} not found")))
        } else {
            let result = any_hash::call(function, &[argument]);
            dec_ref(function);
            result
        };
        release(argument);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_types() {
        for (text, code, bits, lanes, written) in [
            ("", 3, 0, 0, ""),
            ("void", 3, 0, 0, ""),
            ("int", 0, 32, 1, "int32"),
            ("i8", 0, 8, 1, "int8"),
            ("uint16x4", 1, 16, 4, "uint16x4"),
            ("u1", 1, 1, 1, "uint1"),
            ("float", 2, 32, 1, "float32"),
            ("f16x2", 2, 16, 2, "float16x2"),
            ("float64xvscalex8", 2, 64, (-8_i16) as u16, "float64xvscalex8"),
            ("handle", 3, 64, 1, "handle"),
            ("bfloat", 4, 16, 1, "bfloat16"),
            ("bf16x65535", 4, 16, 65535, "bfloat16"),
            ("complex128", 0, 0, 0, "!unknown dtype `complex128`"),
            ("bool", 6, 8, 1, "bool"),
            ("boolx4", 6, 8, 4, "boolx4"),
            ("bool1", 6, 1, 1, "bool1"),
            ("float8_e4m3", 8, 8, 1, "float8_e4m3"),
            ("fp8_e4m3fnuzx2", 11, 8, 2, "float8_e4m3fnuzx2"),
            ("f8_e4m3b11fnuz", 9, 8, 1, "float8_e4m3b11fnuz"),
            ("f8_e8m0fnu", 14, 8, 1, "float8_e8m0fnu"),
            ("f6_e3m2fn", 16, 6, 1, "float6_e3m2fn"),
            ("float4_e2m1fn_x2", 17, 4, 2, "float4_e2m1fnx2"),
            ("f4_e2m1fnx8", 17, 4, 8, "float4_e2m1fnx8"),
            ("int32x", 0, 0, 0, "!Invalid lanes specification in dtype 'int32x'. Lanes must be a positive integer."),
            ("int32x0", 0, 0, 0, "!Invalid lanes specification in dtype 'int32x0'. Lanes must be a positive integer."),
            ("i32x70000", 0, 0, 0, "!Lanes value 70000 is out of range for uint16_t in dtype 'int32x70000'"),
            ("int256", 0, 0, 0, "!Bits value 256 is out of range for uint8_t in dtype 'int256'"),
            ("int32x4y", 0, 0, 0, "!unknown dtype `int32x4y`"),
            ("int32 ", 0, 0, 0, "!unknown dtype `int32 `"),
            ("float8_e9m9", 0, 0, 0, "!unknown float8 type `float8_e9m9`"),
            ("f6_e9", 0, 0, 0, "!unknown float6 type `float6_e9`"),
            ("é", 0, 0, 0, "!unknown dtype `é`"),
            ("custom", 0, 0, 0, "!expected opening brace after 'custom' type incustom"),
            ("custom[x", 0, 0, 0, "!expected closing brace after 'custom' type incustom[x"),
            ("int32xvscale", 0, 32, 1, "int32"),
            ("int32xvscalex65535", 0, 32, 1, "int32"),
            ("int32xvscale4", 0, 0, 0, "!unknown dtype `int32xvscale4`"),
            ("float4_e2m1fn_", 17, 4, 1, "float4_e2m1fn"),
            ("fp4_e2m1fn_2", 0, 0, 0, "!unknown dtype `float4_e2m1fn_2`"),
            ("i99999999999", 0, 0, 0, "!Integer value in dtype string '99999999999' is out of range for uint32_t"),
            ("custom[x]8", 0, 0, 0, "!Function dtype.get_custom_type_code not found"),
        ] {
            match parse(text) {
                Ok(dtype) => {
                    assert_eq!((dtype.code, dtype.bits, dtype.lanes), (code, bits, lanes), "{text}");
                    assert_eq!(format(dtype).unwrap(), written, "{text}");
                }
                Err(failure) => assert_eq!(format!("!{}", failure.message()), written, "{text}"),
            }
        }
        let undefined = DLDataType { code: 20, bits: 8, lanes: 1 };
        assert_eq!(format(undefined).unwrap_err().message(), "DLDataType contains unknown type_code=20");
    }
}
