//! Floating point numbers as text.

/// A number in C's hexadecimal format: `0x1.8p+1`.
pub(super) fn hex(value: f64) -> String {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, mantissa) = ((bits >> 52 & 0x7ff) as i32, bits & 0x000f_ffff_ffff_ffff);
    if exponent == 0 && mantissa == 0 {
        return format!("{sign}0x0p+0");
    }
    let (lead, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x{lead}{point}{digits}p{exponent:+}")
}
