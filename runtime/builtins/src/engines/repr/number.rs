//! The repr of numbers.

/// Appends an integer in decimal digits.
#[inline]
pub(super) fn push_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends an address in hexadecimal.
#[inline]
pub(super) fn push_address<T>(out: &mut Vec<u8>, address: *mut T) {
    out.extend_from_slice(format!("{:#x}", address.addr()).as_bytes());
}

/// Appends a number with six significant digits, as C's `%g` prints it: without trailing zeros,
/// with an exponent where that is shorter.
#[inline]
pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        let name = if value.is_nan() { "nan" } else { "inf" };
        out.extend_from_slice(sign.as_bytes());
        out.extend_from_slice(name.as_bytes());
        return;
    }
    const WHOLE: f64 = 1e6;
    if value.trunc() == value && value.abs() < WHOLE && (value != 0.0 || value.is_sign_positive()) {
        return push_int(out, value as i64);
    }
    let mut text = [0_u8; 32];
    // SAFETY: the format takes one double, and its text, of at most 13 bytes, fits.
    let length = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.6g".as_ptr(), value) };
    push_with_point(out, &text[..usize::try_from(length).unwrap_or(0).min(text.len())]);
}

/// Appends a number printed by C. The locale of the program may have another decimal point, of one
/// or several bytes. (Rust's own formatting would add 20 KB to a library that does not print floats
/// elsewhere.)
#[inline]
fn push_with_point(out: &mut Vec<u8>, number: &[u8]) {
    let mut in_point = false;
    for byte in number {
        let is_point = !(byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'e'));
        if !is_point {
            out.push(*byte);
        } else if !in_point {
            out.push(b'.');
        }
        in_point = is_point;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_in_c() {
        let table = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            1.0 / 3.0,
            123456.0,
            1234567.0,
            999999.5,
            999999.4,
            0.0001,
            0.00001234,
            0.000099999951,
            1e100,
            -2.5e-10,
            5e-324,
            1.7976931348623157e308,
            100000.0,
            1e6,
            1e5 + 0.5,
            2.5,
            0.5,
            1000000.5,
            123.456789,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
        ];
        let mut state = 7_u64;
        let random = core::iter::from_fn(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Some(f64::from_bits(state ^ state >> 29))
        });
        for value in table.into_iter().chain(random.take(2000)) {
            let mut expected = [0_u8; 64];
            // SAFETY: the format takes one double, and its text fits.
            let length = unsafe { libc::snprintf(expected.as_mut_ptr().cast(), expected.len(), c"%g".as_ptr(), value) };
            let mut out = vec![];
            push_float(&mut out, value);
            assert_eq!(
                core::str::from_utf8(&out).unwrap(),
                core::str::from_utf8(&expected[..length as usize]).unwrap()
            );
        }
    }

    #[test]
    fn decimal_points_of_other_languages() {
        for (number, expected) in [("0.1", "0.1"), ("-1,5e-07", "-1.5e-07"), ("2\u{66b}5", "2.5"), ("1e+100", "1e+100")]
        {
            let mut out = vec![];
            push_with_point(&mut out, number.as_bytes());
            assert_eq!(core::str::from_utf8(&out).unwrap(), expected);
        }
    }

    #[test]
    fn ints() {
        for value in [0, 1, -1, 9, 10, -10, 1234567890123456789, i64::MAX, i64::MIN] {
            let mut out = vec![];
            push_int(&mut out, value);
            assert_eq!(core::str::from_utf8(&out).unwrap(), value.to_string());
        }
    }
}
