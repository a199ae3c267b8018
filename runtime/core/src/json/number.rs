//! Numbers in JSON text, compatible with C's `strtoimax`, `strtod` and `printf`.

use core::fmt::Write;
use core::str::from_utf8;

/// A parsed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

/// Parses the characters of a number: an integer if it looks like one and fits, else a float.
/// Returns `None` if the characters are not a number, or if a float cannot represent it: too large,
/// or so small that digits are lost.
#[inline]
pub(super) fn read(token: &[u8]) -> Option<Number> {
    // The characters of numbers are ASCII.
    let text = from_utf8(token).ok()?;
    if !token.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
        && let Ok(integer) = text.parse()
    {
        return Some(Number::Integer(integer));
    }
    let float: f64 = text.parse().ok()?;
    let size = float.abs();
    if size > f64::MIN_POSITIVE && size < f64::INFINITY {
        return Some(Number::Float(float));
    }
    let fits = match size {
        0.0 => {
            let mantissa = token.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
            !mantissa.iter().any(|digit| matches!(digit, b'1'..=b'9'))
        }
        f64::INFINITY => false,
        _ => is_exact(token),
    };
    fits.then_some(Number::Float(float))
}

/// Returns whether C's `strtod` accepts a number at or below the smallest normal float.
#[cfg(target_os = "linux")]
#[cold]
#[inline]
fn is_exact(token: &[u8]) -> bool {
    let Ok(text) = std::ffi::CString::new(token) else { return false };
    // SAFETY: a C string; this thread's error number.
    unsafe {
        *libc::__errno_location() = 0;
        libc::strtod(text.as_ptr(), core::ptr::null_mut());
        *libc::__errno_location() == 0
    }
}

/// The equivalent on systems where the `errno` of this thread is accessed differently: rejects a
/// nonzero number that rounds to 0.
#[cfg(not(target_os = "linux"))]
#[cold]
#[inline]
fn is_exact(token: &[u8]) -> bool {
    let mantissa = token.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let is_zero = !mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    let float = str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
    float.is_some_and(|float| float.is_finite() && (float != 0.0 || is_zero))
}

/// Appends decimal digits.
#[inline]
pub fn write_integer(out: &mut Vec<u8>, integer: i64) {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
        2021222324252627282930313233343536373839\
        4041424344454647484950515253545556575859\
        6061626364656667686970717273747576777879\
        8081828384858687888990919293949596979899";
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = integer.unsigned_abs();
    while rest >= 10 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if rest > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    if integer < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a float: with `.0` if it is a whole number below 2^53, else in the format of C's
/// `%.17g`.
#[inline]
pub fn write_float(out: &mut Vec<u8>, float: f64) {
    const WHOLE: f64 = (1_u64 << 53) as f64;
    if float.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if float.is_sign_negative() {
        out.push(b'-');
    }
    let size = float.abs();
    if size == f64::INFINITY {
        out.extend_from_slice(b"Infinity");
    } else if size < WHOLE && size.fract() == 0.0 {
        write_integer(out, size as i64);
        out.extend_from_slice(b".0");
    } else {
        write_digits(out, size);
    }
}

/// Writes 17 digits without trailing zeros, with an exponent if the number is below 10^-4 or at
/// least 10^17.
#[inline]
fn write_digits(out: &mut Vec<u8>, size: f64) {
    const DIGITS: usize = 17;
    let mut buffer = Buffer { bytes: [0; 32], len: 0 };
    // `d.dddde±x`; the buffer is large enough, so writing does not fail.
    let _ = write!(buffer, "{size:.*e}", DIGITS - 1);
    let text = &buffer.bytes[..buffer.len];
    let mut digits = [b'0'; DIGITS];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..DIGITS + 1]);
    let exponent: i32 = from_utf8(&text[DIGITS + 2..]).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    match exponent {
        0..17 => {
            let (whole, fraction) = digits[..significant.max(exponent as usize + 1)].split_at(exponent as usize + 1);
            out.extend_from_slice(whole);
            if !fraction.is_empty() {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        }
        -4..0 => {
            out.extend_from_slice(&b"0.000"[..exponent.unsigned_abs() as usize + 1]);
            out.extend_from_slice(&digits[..significant]);
        }
        _ => {
            out.push(digits[0]);
            if significant > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..significant]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = std::io::Write::write_fmt(out, format_args!("e{sign}{:02}", exponent.unsigned_abs()));
        }
    }
}

struct Buffer {
    bytes: [u8; 32],
    len: usize,
}

impl Write for Buffer {
    #[inline]
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(float: f64) -> String {
        let mut out = Vec::new();
        write_float(&mut out, float);
        String::from_utf8(out).unwrap()
    }

    /// The output of C's `snprintf` with `%.17g`.
    fn printed(float: f64) -> String {
        let mut buffer = [0u8; 64];
        // SAFETY: the buffer has room for 17 digits, a sign, a point and an exponent.
        let len = unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), c"%.17g".as_ptr(), float) };
        String::from_utf8(buffer[..len as usize].to_vec()).unwrap()
    }

    #[test]
    #[allow(clippy::excessive_precision, reason = "the last digit is what the test is about")]
    fn floats_are_written_as_c_does() {
        for (float, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-123.0, "-123.0"),
            (9007199254740991.0, "9007199254740991.0"),
            (9007199254740992.0, "9007199254740992"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (-1e300, "-1.0000000000000001e+300"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1.5, "1.5"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            // 18 digits that end in 5: half way between two numbers of 17.
            (1125899906842624.25, "1125899906842624.2"),
            (1125899906842624.75, "1125899906842624.8"),
        ] {
            assert_eq!(written(float), expected);
        }
        let mut state = 1_u64;
        for round in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let float = match round % 4 {
                0 => f64::from_bits(state),
                1 => (state >> 20) as f64 / 1e6,
                2 => (state >> 11) as f64 / f64::from(1 << (state % 30)),
                _ => (state as i64) as f64 * 1e-18,
            };
            let whole = float.fract() == 0.0 && float.abs() < 9007199254740992.0;
            if float.is_finite() && !whole {
                assert_eq!(written(float), printed(float), "{:x}", float.to_bits());
            }
        }
    }

    #[test]
    fn integers() {
        for integer in [0, 1, -1, 9, 10, -10, 99, 100, 101, 12345, i64::MAX, i64::MIN, -1000000, 1000001] {
            let mut out = Vec::new();
            write_integer(&mut out, integer);
            assert_eq!(out, integer.to_string().into_bytes());
        }
    }

    #[test]
    fn numbers_are_read_as_c_does() {
        use Number::{Float, Integer};
        for (token, expected) in [
            ("0", Some(Integer(0))),
            ("-0", Some(Integer(0))),
            ("+5", Some(Integer(5))),
            ("007", Some(Integer(7))),
            ("9223372036854775807", Some(Integer(i64::MAX))),
            ("-9223372036854775808", Some(Integer(i64::MIN))),
            ("9223372036854775808", Some(Float(9223372036854775808.0))),
            ("1.", Some(Float(1.0))),
            (".5", Some(Float(0.5))),
            ("-.5e1", Some(Float(-5.0))),
            ("1E+2", Some(Float(100.0))),
            ("0.0e-999", Some(Float(0.0))),
            ("2.2250738585072014e-308", Some(Float(f64::MIN_POSITIVE))),
            ("", None),
            ("-", None),
            ("+", None),
            (".", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            ("1-2", None),
            ("--1", None),
            ("1.2.3", None),
            ("1e400", None),
            // Too small to keep all digits.
            ("1e-400", None),
            ("5e-324", None),
            ("2.2250738585072011e-308", None),
        ] {
            assert_eq!(read(token.as_bytes()), expected, "{token}");
        }
    }
}
