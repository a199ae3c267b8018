//! How repr writes numbers.

use core::fmt::Write;

/// Decimal digits.
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

/// An address in hexadecimal.
#[inline]
pub(super) fn push_address<T>(out: &mut Vec<u8>, address: *mut T) {
    out.extend_from_slice(format!("{:#x}", address.addr()).as_bytes());
}

/// Six significant digits, as C's `%g` writes them: without trailing zeros, with an exponent where that is shorter.
#[inline]
pub(super) fn push_float(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 6;
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
    // `-d.ddddde-X`, rounded as C does.
    let mut text = Scientific { bytes: [0; 16], len: 0 };
    let _ = write!(text, "{value:.*e}", DIGITS as usize - 1);
    let text = &text.bytes[..text.len];
    let (sign, text) = text.split_at(usize::from(text[0] == b'-'));
    let (mantissa, exponent) = text.split_at(text.iter().position(|byte| *byte == b'e').unwrap_or(text.len()));
    let (is_small, exponent) = match exponent {
        [_, b'-', digits @ ..] => (true, digits),
        [_, digits @ ..] => (false, digits),
        [] => (false, exponent),
    };
    let size = exponent.iter().fold(0, |size, digit| size * 10 + i32::from(digit - b'0'));
    let exponent = if is_small { -size } else { size };
    let mut digits = [mantissa[0]; DIGITS as usize];
    digits[1..].copy_from_slice(&mantissa[2..]);
    let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..significant];
    out.extend_from_slice(sign);
    if !(-4..DIGITS).contains(&exponent) {
        push_with_point(out, digits, 1);
        out.extend_from_slice(if is_small { b"e-" } else { b"e+" });
        if size < 10 {
            out.push(b'0');
        }
        push_int(out, size.into());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(core::iter::repeat_n(b'0', (-1 - exponent) as usize));
        out.extend_from_slice(digits);
    } else {
        push_with_point(out, digits, exponent as usize + 1);
    }
}

/// Room for `-d.ddddde-XXX`.
struct Scientific {
    bytes: [u8; 16],
    len: usize,
}

impl Write for Scientific {
    #[inline]
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        let place = self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Digits with a decimal point after `whole` of them, when any come after it.
#[inline]
fn push_with_point(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    let (before, after) = digits.split_at(whole.min(digits.len()));
    out.extend_from_slice(before);
    out.extend(core::iter::repeat_n(b'0', whole - before.len()));
    if !after.is_empty() {
        out.push(b'.');
        out.extend_from_slice(after);
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
    fn ints() {
        for value in [0, 1, -1, 9, 10, -10, 1234567890123456789, i64::MAX, i64::MIN] {
            let mut out = vec![];
            push_int(&mut out, value);
            assert_eq!(core::str::from_utf8(&out).unwrap(), value.to_string());
        }
    }
}
