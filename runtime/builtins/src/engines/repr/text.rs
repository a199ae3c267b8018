//! The repr of text and bytes: Python literals, in ASCII.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends text in double quotes. Characters outside ASCII are written as `\uXXXX` or `\UXXXXXXXX`,
/// invalid UTF-8 as `\xXX`; the readable part of a terminal's color sequence is kept.
#[inline]
pub(super) fn push_text(out: &mut Vec<u8>, mut text: &[u8]) {
    out.push(b'"');
    loop {
        let plain = text.iter().position(|byte| !is_plain(*byte) || *byte == b'"').unwrap_or(text.len());
        out.extend_from_slice(&text[..plain]);
        text = &text[plain..];
        if text.is_empty() {
            break;
        }
        text = &text[push_special(out, text)..];
    }
    out.push(b'"');
}

/// Appends bytes as `b"..."`.
#[inline]
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"b\"");
    for byte in bytes {
        if is_plain(*byte) && *byte != b'"' {
            out.push(*byte);
        } else {
            push_hex(out, b'x', (*byte).into(), 2);
        }
    }
    out.push(b'"');
}

/// Returns true if a byte is written as it is, apart from quotes.
#[inline]
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x7f) && byte != b'\\'
}

/// Writes the first character of the text, and returns its length in bytes.
#[inline]
fn push_special(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let first = text[0];
    let short = match first {
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        b'\\' | b'"' => first,
        _ => 0,
    };
    if short != 0 {
        out.extend_from_slice(&[b'\\', short]);
        return 1;
    }
    if first == 0x1b
        && let Some(length) = color_sequence(text)
    {
        out.extend_from_slice(b"\\x1b");
        out.extend_from_slice(&text[1..length]);
        return length;
    }
    let (length, bits) = match first {
        0xc0..=0xdf => (2, first & 0x1f),
        0xe0..=0xef => (3, first & 0x0f),
        0xf0..=0xf7 => (4, first & 0x07),
        _ => (1, 0),
    };
    match text.get(1..length) {
        Some(rest) if length > 1 && rest.iter().all(|byte| byte & 0xc0 == 0x80) => {
            let code = rest.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3f));
            let (letter, digits) = if length == 4 { (b'U', 8) } else { (b'u', 4) };
            push_hex(out, letter, code, digits);
            length
        }
        _ => {
            push_hex(out, b'x', first.into(), 2);
            1
        }
    }
}

/// The length of a color sequence: `ESC [`, digits and semicolons, then `m` or `K`.
#[inline]
fn color_sequence(text: &[u8]) -> Option<usize> {
    let parameters = text.strip_prefix(b"\x1b[")?;
    let end = parameters.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    matches!(parameters[end], b'm' | b'K').then_some(end + 3)
}

#[inline]
fn push_hex(out: &mut Vec<u8>, letter: u8, value: u32, digits: u32) {
    out.extend_from_slice(&[b'\\', letter]);
    out.extend((0..digits).rev().map(|digit| HEX[(value >> (4 * digit)) as usize & 15]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: &str) {
        let mut out = vec![];
        push_text(&mut out, text);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn texts() {
        check(b"", r#""""#);
        check(b"plain 'text'", r#""plain 'text'""#);
        check(b"a\"b\\c\nd\te\rf", r#""a\"b\\c\nd\te\rf""#);
        check(b"\0\x07\x1f\x7f", r#""\x00\x07\x1f\x7f""#);
        check("\u{e9}\u{20ac}\u{1f600}".as_bytes(), r#""\u00e9\u20ac\U0001f600""#);
        check(b"\xff\x80a\xc3", r#""\xff\x80a\xc3""#);
        check(b"\xe2\x82 \xf0\x9f\x98 \xf8", r#""\xe2\x82 \xf0\x9f\x98 \xf8""#);
        check(b"\xc1\x81\xed\xa0\x80", r#""\u0041\ud800""#);
        check(b"\x1b[31;1mred\x1b[0m\x1b[K\x1b[2J\x1b[", r#""\x1b[31;1mred\x1b[0m\x1b[K\x1b[2J\x1b[""#);
    }

    #[test]
    fn bytes() {
        let mut out = vec![];
        push_bytes(&mut out, b"a'b\"c\\\n\xff");
        assert_eq!(String::from_utf8(out).unwrap(), r#"b"a'b\x22c\x5c\x0a\xff""#);
    }
}
