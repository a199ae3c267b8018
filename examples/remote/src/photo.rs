use std::path::Path;

use crate::Failure;

/// Reads an RGB picture (PPM with 8 bits per channel): shape (height, width, 3), and the pixels row
/// by row.
pub(crate) fn read(path: &Path) -> Result<([i64; 3], Vec<u8>), Failure> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).ok_or_else(|| format!("{} is no PPM file (P6, 8 bits)", path.display()).into())
}

/// Parses `P6`, width, height and 255, each followed by white space, and then the pixels.
fn parse(bytes: &[u8]) -> Option<([i64; 3], Vec<u8>)> {
    let mut rest = bytes;
    let mut word = || {
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let (word, behind) = rest.split_at(end);
        rest = &behind[1..];
        std::str::from_utf8(word).ok()
    };
    let ("P6", width, height, "255") = (word()?, word()?, word()?, word()?) else { return None };
    let (width, height): (usize, usize) = (width.parse().ok()?, height.parse().ok()?);
    let pixels = rest.get(..width.checked_mul(height)?.checked_mul(3)?)?;
    Some(([height as i64, width as i64, 3], pixels.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures() {
        assert_eq!(parse(b"P6\n2 1\n255\n\x01\x02\x03\x0a\x0b\x0c"), Some(([1, 2, 3], vec![1, 2, 3, 10, 11, 12])));
        for bytes in [&b"P5\n1 1\n255\n\0"[..], b"P6\n2 1\n255\n\0", b"P6 1 1 65535 ", b"P6", b"P6\n-1 1\n255\n"] {
            assert_eq!(parse(bytes), None);
        }
    }
}
