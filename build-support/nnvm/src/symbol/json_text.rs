//! JSON in the format of NNVM's files: a reader for untrusted texts, and a writer with the line
//! breaks of dmlc's.

use kernpack_graph::{Result, fail};

/// The maximum nesting depth: the reader is recursive.
const DEPTH: usize = 64;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Returns the kind, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Parses a text.
pub(super) fn read(text: &str) -> Result<Json> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at != reader.text.len() {
        return reader.error("expected the end");
    }
    Ok(value)
}

impl Reader<'_> {
    fn error<T>(&self, what: &str) -> Result<T> {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.len() - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1) + 1;
        fail!("{what} at line {line}, column {column}")
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Skips blanks and accepts a character.
    fn takes(&mut self, wanted: u8) -> bool {
        self.space();
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > DEPTH {
            return self.error("lists and objects are nested too deeply");
        }
        self.space();
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let mut members: Vec<(String, Json)> = Vec::new();
                if self.takes(b'}') {
                    return Ok(Json::Object(members));
                }
                loop {
                    self.space();
                    let name = self.string()?;
                    if !self.takes(b':') {
                        return self.error("expected `:`");
                    }
                    members.push((name, self.value(depth + 1)?));
                    if self.takes(b'}') {
                        return Ok(Json::Object(members));
                    }
                    if !self.takes(b',') {
                        return self.error("expected `,` or `}`");
                    }
                }
            }
            Some(b'[') => {
                self.at += 1;
                let mut values = Vec::new();
                if self.takes(b']') {
                    return Ok(Json::List(values));
                }
                loop {
                    values.push(self.value(depth + 1)?);
                    if self.takes(b']') {
                        return Ok(Json::List(values));
                    }
                    if !self.takes(b',') {
                        return self.error("expected `,` or `]`");
                    }
                }
            }
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't' | b'f' | b'n') => {
                for (word, value) in [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)] {
                    if self.text[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.error("expected a value")
            }
            _ => self.error("expected a value"),
        }
    }

    fn number(&mut self) -> Result<Json> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
            self.at += 1;
        }
        let text = core::str::from_utf8(&self.text[begin..self.at]).unwrap_or_default();
        if let Ok(int) = text.parse() {
            return Ok(Json::Int(int));
        }
        match text.parse() {
            Ok(float) => Ok(Json::Float(float)),
            Err(_) => self.error(&format!("`{text}` is not a number")),
        }
    }

    fn string(&mut self) -> Result<String> {
        if self.peek() != Some(b'"') {
            return self.error("expected a text");
        }
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(byte) = self.peek() else { return self.error("a text has no end") };
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    let Some(escape) = self.peek() else { return self.error("a text has no end") };
                    self.at += 1;
                    match escape {
                        b'n' => bytes.push(b'\n'),
                        b't' => bytes.push(b'\t'),
                        b'r' => bytes.push(b'\r'),
                        b'b' => bytes.push(8),
                        b'f' => bytes.push(12),
                        b'"' | b'\\' | b'/' => bytes.push(escape),
                        b'u' => {
                            let code = self.code()?;
                            let scalar = if (0xd800..0xdc00).contains(&code) {
                                if self.text[self.at..].starts_with(b"\\u") {
                                    self.at += 2;
                                }
                                let low = self.code()?;
                                0x10000 + ((code - 0xd800) << 10) + low.wrapping_sub(0xdc00)
                            } else {
                                code
                            };
                            let Some(letter) = char::from_u32(scalar) else {
                                return self.error("an escape sequence is invalid");
                            };
                            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        _ => return self.error("an unknown escape"),
                    }
                }
                _ => bytes.push(byte),
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.error("a text is not UTF-8"),
        }
    }

    fn code(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|digits| core::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.error("expected four hexadecimal digits"),
        }
    }
}

/// Writes like dmlc's writer: each open list or object records whether its parts are on separate
/// lines.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) text: String,
    scopes: Vec<(bool, usize)>,
}

impl Writer {
    /// Begins a list or an object.
    pub(super) fn begin(&mut self, bracket: char, lines: bool) {
        self.text.push(bracket);
        self.scopes.push((lines, 0));
    }

    /// Ends it.
    pub(super) fn end(&mut self, bracket: char) {
        let (lines, count) = self.scopes.pop().unwrap_or_default();
        if lines && count > 0 {
            self.line();
        }
        self.text.push(bracket);
    }

    fn line(&mut self) {
        if self.scopes.last().is_none_or(|(lines, _)| *lines) {
            self.text.push('\n');
            self.text.extend(core::iter::repeat_n(' ', 2 * self.scopes.len()));
        }
    }

    /// Separates parts. Called before each part.
    pub(super) fn next(&mut self) {
        if let Some((_, count)) = self.scopes.last_mut() {
            if *count > 0 {
                self.text.push_str(", ");
            }
            *count += 1;
        }
        self.line();
    }

    /// Writes the key before the value of an object's member.
    pub(super) fn key(&mut self, key: &str) {
        self.next();
        self.string(key);
        self.text.push_str(": ");
    }

    /// Writes a text.
    pub(super) fn string(&mut self, text: &str) {
        self.text.push('"');
        for letter in text.chars() {
            match letter {
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                _ => self.text.push(letter),
            }
        }
        self.text.push('"');
    }

    /// Writes numbers: up to ten on one line.
    pub(super) fn numbers<T: ToString>(&mut self, values: &[T]) {
        self.begin('[', values.len() > 10);
        for value in values {
            self.next();
            self.text.push_str(&value.to_string());
        }
        self.end(']');
    }
}
