//! Bytes in JSON text: base64 with padding.

use crate::{Result, bail};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes as digits.
#[inline]
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        let digit = |at: u32| DIGITS[(word >> (18 - 6 * at)) as usize & 63];
        digits.extend_from_slice(&[digit(0), digit(1), digit(2), digit(3)]);
        let end = digits.len() - (3 - group.len());
        digits[end..].fill(b'=');
    }
    digits
}

/// Decodes digits to bytes. Other characters count as zero; an equals sign in one of the last two
/// places of a group ends the group, wherever it is.
///
/// # Errors
/// InternalError when the digits are not whole groups of four.
#[inline]
pub(crate) fn decode(digits: &[u8]) -> Result<Vec<u8>> {
    let (groups, []) = digits.as_chunks::<4>() else {
        bail!(InternalError, "Check failed: (bytes.size % 4 == 0) is false: invalid base64 encoding");
    };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for group in groups {
        let word = group.iter().fold(0, |word, digit| word << 6 | value_of(*digit));
        bytes.push((word >> 16) as u8);
        if group[2] != b'=' {
            bytes.push((word >> 8) as u8);
        }
        if group[3] != b'=' {
            bytes.push(word as u8);
        }
    }
    Ok(bytes)
}

#[inline]
const fn value_of(digit: u8) -> u32 {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (bytes, digits) in [
            (&b""[..], &b""[..]),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"\xff\xfe\xfd\0", b"//79AA=="),
        ] {
            assert_eq!(encode(bytes), digits);
            assert_eq!(decode(digits).unwrap(), bytes);
        }
        assert_eq!(decode(b"Zg=").unwrap_err().kind(), "InternalError");
        assert_eq!(decode(b"\xff\xff\xff\xff").unwrap(), [0, 0, 0]);
    }
}
