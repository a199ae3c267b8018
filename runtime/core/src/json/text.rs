//! Finds the characters of a text that can be copied unchanged, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns the index, at `from` or later, of the first byte that ends a string literal or must not
/// be in it unescaped: a quote, a backslash, or a control character. Returns the length of the text
/// if there is no such byte.
#[inline]
pub(super) fn end_of_plain(text: &[u8], from: usize) -> usize {
    find(text, from, |word| below(word, b' ') | equal(word, b'"') | equal(word, b'\\'))
}

/// Returns the index, at `from` or later, of the first byte that must be escaped, or the length of
/// the text if there is no such byte.
#[inline]
pub(super) fn end_of_unescaped(text: &[u8], from: usize) -> usize {
    find(text, from, |word| {
        below(word, b' ') | equal(word, b'"') | equal(word, b'\\') | equal(word, b'/') | equal(word, 0x7f)
    })
}

/// Returns the index of the first byte that `marks` marks by setting the byte's highest bit.
/// `marks` may wrongly mark other bytes, but only after a correctly marked one.
#[inline]
fn find(text: &[u8], from: usize, marks: impl Fn(u64) -> u64) -> usize {
    let mut at = from;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    // Bytes after the end are treated as a letter.
    let mut word = [b'a'; 8];
    word[..rest.len()].copy_from_slice(rest);
    match marks(u64::from_le_bytes(word)) {
        0 => text.len(),
        marks => at + marks.trailing_zeros() as usize / 8,
    }
}

#[inline]
const fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word & HIGH_BITS
}

#[inline]
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_at_each_place() {
        for byte in 0..=255 {
            for len in 0..20 {
                for place in 0..len {
                    let mut text = vec![b'a'; len];
                    text[place] = byte;
                    let special = byte < b' ' || byte == b'"' || byte == b'\\';
                    let escaped = special || byte == b'/' || byte == 0x7f;
                    for from in 0..=len {
                        let expected = |found: bool| if found && place >= from { place } else { len };
                        assert_eq!(end_of_plain(&text, from), expected(special), "{text:?}");
                        assert_eq!(end_of_unescaped(&text, from), expected(escaped), "{text:?}");
                    }
                }
            }
        }
    }
}
