//! Parser of JSON text. The text need not be UTF-8: bytes outside escapes are copied unchanged.

use super::number::{self, Number};
use super::text::end_of_plain;
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIAnyPayload, type_index};
use crate::embedded::release::release_elements;
use crate::embedded::{map, new_string, new_string_object, seq};
use crate::error;
use crate::value::Any;

/// Parses a text to a value.
///
/// # Errors
/// Returns a ValueError with the expected token and its position: line, column and offset count
/// bytes; lines and columns start at 1.
#[inline]
pub fn parse(text: &[u8]) -> Result<Any> {
    let mut parser = Parser { text, position: 0, values: Values(Vec::new()), levels: Vec::new(), content: Vec::new() };
    match parser.document() {
        // SAFETY: the value is owned, and returned once.
        Ok(value) => Ok(unsafe { Any::from_raw(value) }),
        Err(Stop::Syntax { problem, at }) => Err(syntax_error(text, problem, at)),
        Err(Stop::Failure(failure)) => Err(failure.into()),
    }
}

/// The reason that parsing stopped.
enum Stop {
    Syntax { problem: &'static str, at: usize },
    Failure(crate::embedded::failure::Failure),
}

const EXPECTING_VALUE: &str = "Expecting value";
const EXPECTING_NAME: &str = "Expecting property name enclosed in double quotes";
const EXPECTING_COLON: &str = "Expecting ':' delimiter";
const EXPECTING_COMMA: &str = "Expecting ',' delimiter";
const EXTRA_DATA: &str = "Extra data";
const UNTERMINATED_STRING: &str = "Unterminated string starting at";
const CONTROL_CHARACTER: &str = "Invalid control character at";
const INVALID_ESCAPE: &str = "Invalid \\escape";
const INVALID_CODE: &str = "Invalid \\uXXXX escape";
const INVALID_PAIR: &str = "Invalid surrogate pair of \\uXXXX escapes";
/// The problem of text that ends after a comma.
const ANY_PROBLEM: &str = "Syntax error near";

#[inline]
const fn syntax<T>(problem: &'static str, at: usize) -> Result<T, Stop> {
    Err(Stop::Syntax { problem, at })
}

#[cold]
#[inline]
fn syntax_error(text: &[u8], problem: &str, at: usize) -> crate::Error {
    // The text before a problem was parsed, so all its newlines are between tokens.
    let before = &text[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = at - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1) + 1;
    error!(ValueError, "{problem}: line {line} column {column} (char {at})")
}

/// Owned values whose containers are not complete yet.
struct Values(Vec<TVMFFIAny>);

impl Drop for Values {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this struct owns the values, which are not used any more.
        unsafe { release_elements(self.0.drain(..)) }
    }
}

/// A container that is not complete yet: the index of its first value in [`Values`].
#[derive(Clone, Copy)]
enum Level {
    Array(usize),
    /// Keys and values alternate.
    Object(usize),
}

struct Parser<'a> {
    text: &'a [u8],
    position: usize,
    values: Values,
    levels: Vec<Level>,
    /// Buffer for the content of a string with escapes.
    content: Vec<u8>,
}

impl Parser<'_> {
    #[inline]
    fn document(&mut self) -> Result<TVMFFIAny, Stop> {
        loop {
            // A value begins here.
            self.skip_spaces();
            let mut value = match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'{') => {
                    self.position += 1;
                    self.skip_spaces();
                    match self.peek() {
                        None => return syntax(EXPECTING_NAME, self.position),
                        Some(b'}') => {
                            self.position += 1;
                            new_map(&[])?
                        }
                        Some(_) => {
                            self.levels.push(Level::Object(self.values.0.len()));
                            self.name()?;
                            continue;
                        }
                    }
                }
                Some(b'[') => {
                    self.position += 1;
                    self.skip_spaces();
                    match self.peek() {
                        None => return syntax(EXPECTING_VALUE, self.position),
                        Some(b']') => {
                            self.position += 1;
                            new_array(&[])
                        }
                        Some(_) => {
                            self.levels.push(Level::Array(self.values.0.len()));
                            continue;
                        }
                    }
                }
                Some(b't') => self.literal(b"true", TVMFFIAny::bool(true))?,
                Some(b'f') => self.literal(b"false", TVMFFIAny::bool(false))?,
                Some(b'n') => self.literal(b"null", TVMFFIAny::NONE)?,
                Some(_) => self.number()?,
                None => return syntax(EXPECTING_VALUE, self.position),
            };
            // A value ends here, and possibly some of the containers around it.
            loop {
                let Some(level) = self.levels.last().copied() else {
                    return self.end_of_document(value);
                };
                self.values.0.push(value);
                self.skip_spaces();
                match (level, self.peek()) {
                    (Level::Array(_), Some(b',')) => {
                        self.position += 1;
                        self.skip_spaces();
                        if self.position == self.text.len() {
                            return syntax(ANY_PROBLEM, self.position);
                        }
                        break;
                    }
                    (Level::Object(_), Some(b',')) => {
                        self.position += 1;
                        self.skip_spaces();
                        if self.position == self.text.len() {
                            return syntax(ANY_PROBLEM, self.position);
                        }
                        self.name()?;
                        break;
                    }
                    (Level::Array(start), Some(b']')) => {
                        value = new_array(&self.values.0[start..]);
                        self.values.0.truncate(start);
                    }
                    (Level::Object(start), Some(b'}')) => {
                        let map = new_map(&self.values.0[start..]);
                        // The map owns the values now, even if creating it failed.
                        self.values.0.truncate(start);
                        value = map?;
                    }
                    _ => return syntax(EXPECTING_COMMA, self.position),
                }
                self.position += 1;
                self.levels.pop();
            }
        }
    }

    #[inline]
    fn end_of_document(&mut self, value: TVMFFIAny) -> Result<TVMFFIAny, Stop> {
        self.skip_spaces();
        if self.position == self.text.len() {
            return Ok(value);
        }
        self.values.0.push(value);
        syntax(EXTRA_DATA, self.position)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    #[inline]
    fn skip_spaces(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.skip_run_of_spaces();
        }
    }

    #[inline(never)]
    fn skip_run_of_spaces(&mut self) {
        const INDENTATION: &[u8] = b"    ";
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
            while self.text[self.position..].starts_with(INDENTATION) {
                self.position += INDENTATION.len();
            }
        }
    }

    #[inline]
    fn literal(&mut self, name: &[u8], value: TVMFFIAny) -> Result<TVMFFIAny, Stop> {
        if !self.text[self.position..].starts_with(name) {
            return syntax(EXPECTING_VALUE, self.position);
        }
        self.position += name.len();
        Ok(value)
    }

    /// Parses a name and the colon after it.
    #[inline]
    fn name(&mut self) -> Result<(), Stop> {
        if self.peek() != Some(b'"') {
            return syntax(EXPECTING_NAME, self.position);
        }
        let name = self.string()?;
        self.values.0.push(name);
        self.skip_spaces();
        if self.peek() != Some(b':') {
            return syntax(EXPECTING_COLON, self.position);
        }
        self.position += 1;
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<TVMFFIAny, Stop> {
        /// Number of digits that always fit into an integer.
        const SAFE_DIGITS: usize = 18;
        let text = &self.text[self.position..];
        let negative = text.first() == Some(&b'-');
        let digits = &text[usize::from(negative)..];
        let mut integer = 0_i64;
        let mut len = 0;
        while let Some(digit @ b'0'..=b'9') = digits.get(len) {
            integer = integer.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            len += 1;
        }
        let is_integer = !matches!(digits.get(len), Some(b'.' | b'e' | b'E' | b'+' | b'-'));
        if is_integer && (1..=SAFE_DIGITS).contains(&len) {
            self.position += len + usize::from(negative);
            return Ok(TVMFFIAny::int(if negative { -integer } else { integer }));
        }
        self.unusual_number(digits, negative)
    }

    /// Parses any number that is not a short integer. If it is negative, `text` starts after the
    /// minus sign.
    #[inline]
    fn unusual_number(&mut self, text: &[u8], negative: bool) -> Result<TVMFFIAny, Stop> {
        let infinity = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
        match text.first() {
            Some(b'I') if negative => return self.literal(b"-Infinity", TVMFFIAny::float(infinity)),
            Some(b'I') => return self.literal(b"Infinity", TVMFFIAny::float(infinity)),
            Some(b'N') if !negative => return self.literal(b"NaN", TVMFFIAny::float(f64::NAN)),
            _ => {}
        }
        let rest = &self.text[self.position..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'e' | b'E' | b'+' | b'-' | b'.');
        let len = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        match number::read(&rest[..len]) {
            None => syntax(EXPECTING_VALUE, self.position),
            Some(number) => {
                self.position += len;
                Ok(match number {
                    Number::Integer(integer) => TVMFFIAny::int(integer),
                    Number::Float(float) => TVMFFIAny::float(float),
                })
            }
        }
    }

    /// Parses a string literal; the position is at its opening quote.
    #[inline]
    fn string(&mut self) -> Result<TVMFFIAny, Stop> {
        let start = self.position + 1;
        let end = end_of_plain(self.text, start);
        if self.text.get(end) == Some(&b'"') {
            self.position = end + 1;
            return Ok(self.plain_string(start, end));
        }
        self.escaped_string(start, end)
    }

    /// Creates a string from the characters from `start` to `end`.
    #[inline]
    fn plain_string(&self, start: usize, end: usize) -> TVMFFIAny {
        let len = end - start;
        match self.text[start..].first_chunk::<8>() {
            // A short string, like most names, that is not at the end of the text: built without a
            // copy of variable length.
            Some(word) if len < 8 => {
                let word = u64::from_le_bytes(*word) & ((1 << (len * 8)) - 1);
                let payload = TVMFFIAnyPayload { v_bytes: word.to_le_bytes() };
                TVMFFIAny { type_index: type_index::SMALL_STR, small_len: len as u32, payload }
            }
            _ => new_string(&self.text[start..end]),
        }
    }

    /// Parses a string literal that has an escape at `end`.
    #[inline(never)]
    fn escaped_string(&mut self, start: usize, end: usize) -> Result<TVMFFIAny, Stop> {
        let mut content = core::mem::take(&mut self.content);
        content.clear();
        content.extend_from_slice(&self.text[start..end]);
        let mut at = end;
        loop {
            match self.text.get(at) {
                None => return syntax(UNTERMINATED_STRING, start - 1),
                Some(b'"') => break,
                Some(b'\\') => at = self.escape(at + 1, &mut content)?,
                Some(_) => return syntax(CONTROL_CHARACTER, at),
            }
            let end = end_of_plain(self.text, at);
            content.extend_from_slice(&self.text[at..end]);
            at = end;
        }
        self.position = at + 1;
        // A string object even if it is short, as in the stock library.
        let string = new_string_object(&content);
        self.content = content;
        Ok(TVMFFIAny::pointer(type_index::STR, string.cast()))
    }

    /// Appends the character of an escape; `at` is after the backslash. Returns the end of the
    /// escape.
    #[inline]
    fn escape(&self, at: usize, content: &mut Vec<u8>) -> Result<usize, Stop> {
        let character = match self.text.get(at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(at, content),
            _ => return syntax(INVALID_ESCAPE, at),
        };
        content.push(character);
        Ok(at + 1)
    }

    /// Parses a `\u` escape; `at` is the index of the `u`.
    #[inline]
    fn unicode_escape(&self, at: usize, content: &mut Vec<u8>) -> Result<usize, Stop> {
        let Some(first) = self.hex(at + 1) else { return syntax(INVALID_CODE, at) };
        let (code, end) = match first {
            0xd800..0xdc00 => {
                if !self.text[at + 5..].starts_with(b"\\u") {
                    return syntax(INVALID_PAIR, at);
                }
                match self.hex(at + 7) {
                    None => return syntax(INVALID_CODE, at + 7),
                    Some(second @ 0xdc00..0xe000) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), at + 11),
                    Some(_) => return syntax(INVALID_PAIR, at + 7),
                }
            }
            _ => (first, at + 5),
        };
        let Some(character) = char::from_u32(code) else { return syntax(INVALID_PAIR, at) };
        content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(end)
    }

    /// Parses four hexadecimal digits.
    #[inline]
    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
    }
}

/// Creates an array that takes ownership of the values.
#[inline]
fn new_array(values: &[TVMFFIAny]) -> TVMFFIAny {
    // SAFETY: the caller gives up the values.
    TVMFFIAny::pointer(type_index::ARRAY, unsafe { seq::new_array_of_moved(values) }.cast())
}

/// Creates a map that takes ownership of keys and values.
#[inline]
fn new_map(values: &[TVMFFIAny]) -> Result<TVMFFIAny, Stop> {
    // SAFETY: the caller gives up the values.
    let map = unsafe { map::new_map_of_moved(values) }.map_err(Stop::Failure)?;
    Ok(TVMFFIAny::pointer(type_index::MAP, map.cast()))
}
