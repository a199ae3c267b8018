//! The lexer: words, numbers and signs of a text.

use super::names::is_name_char;
use crate::error::{CompileError, ErrorKind, Result};

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// A name, or a keyword if it is not in backticks.
    Name { text: String, quoted: bool },
    /// Digits, and a type that follows immediately.
    Number { digits: String, suffix: String },
    /// A string literal.
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// The end of a line, outside of brackets.
    Newline,
    /// The end of the text.
    End,
}

impl Token {
    /// A description of the token for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Name { text, .. } => format!("`{text}`"),
            Self::Number { digits, suffix } => format!("`{digits}{suffix}`"),
            Self::Text(text) => format!("\"{text}\""),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::Newline => "the end of the line".to_owned(),
            Self::End => "the end of the text".to_owned(),
        }
    }
}

/// A token, and its position: line and column, counted from 1.
pub(super) struct Spot {
    pub(super) token: Token,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Longer signs come first.
const SIGNS: &[&str] = &[
    "..+", "#![", "..", "::", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "->", "=>", "#[", "(", ")", "[", "]",
    "{", "}", ",", ":", ";", "=", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "!", "@",
];

/// An error at a position of a text, with the line.
pub(super) fn mistake(text: &str, line: usize, column: usize, what: impl Into<String>) -> CompileError {
    let source = text.lines().nth(line - 1).unwrap_or("");
    CompileError::new(ErrorKind::Syntax, what)
        .at(format!("{line}:{column}"))
        .note(source)
        .note(format!("{}^", " ".repeat(column - 1)))
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Spot>> {
    let mut lexer = Lexer { text, rest: text.chars().collect(), at: 0, line: 1, column: 1, brackets: Vec::new() };
    let mut spots = Vec::new();
    loop {
        lexer.skip_blanks();
        let (line, column) = (lexer.line, lexer.column);
        let token = lexer.token()?;
        let end = token == Token::End;
        if token != Token::Newline || lexer.newlines_count() {
            spots.push(Spot { token, line, column });
        }
        if end {
            return Ok(spots);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    rest: Vec<char>,
    at: usize,
    line: usize,
    column: usize,
    brackets: Vec<&'static str>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    /// Returns true if the end of a line ends a statement: not inside of parentheses and brackets.
    fn newlines_count(&self) -> bool {
        self.brackets.last().is_none_or(|bracket| *bracket == "{")
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek(0) {
            if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if c == '\n' || !c.is_whitespace() {
                return;
            } else {
                self.next();
            }
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek(0).filter(|c| accept(*c)) {
            taken.push(c);
            self.next();
        }
        taken
    }

    fn token(&mut self) -> Result<Token> {
        let Some(c) = self.peek(0) else { return Ok(Token::End) };
        if c == '\n' {
            self.next();
            return Ok(Token::Newline);
        }
        if c == '"' {
            return Ok(Token::Text(self.quoted('"')?));
        }
        if c == '`' {
            return Ok(Token::Name { text: self.quoted('`')?, quoted: true });
        }
        if c.is_ascii_digit() {
            return Ok(self.number());
        }
        if is_name_char(c) {
            let mut text = self.take_while(is_name_char);
            while self.peek(0) == Some('.') && self.peek(1).is_some_and(is_name_char) {
                self.next();
                text.push('.');
                text.push_str(&self.take_while(is_name_char));
            }
            return Ok(Token::Name { text, quoted: false });
        }
        let found = SIGNS.iter().find(|sign| sign.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c)));
        let Some(sign) = found else {
            return Err(mistake(
                self.text,
                self.line,
                self.column,
                format!("unexpected character `{}`", c.escape_debug()),
            ));
        };
        for _ in sign.chars() {
            self.next();
        }
        match *sign {
            "(" | "[" | "#[" | "#![" | "{" => self.brackets.push(if *sign == "{" { "{" } else { "[" }),
            ")" | "]" | "}" => {
                self.brackets.pop();
            }
            _ => {}
        }
        Ok(Token::Sign(sign))
    }

    fn number(&mut self) -> Token {
        let mut digits = self.take_while(|c| c.is_ascii_digit());
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.next();
            digits.push('.');
            digits.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            for _ in 0..=sign {
                digits.extend(self.next());
            }
            digits.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        let suffix = self.take_while(is_name_char);
        Token::Number { digits, suffix }
    }

    /// The content between two quotes.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let (line, column) = (self.line, self.column);
        self.next();
        let mut text = String::new();
        loop {
            let (escape_line, escape_column) = (self.line, self.column);
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => {
                    let c = match self.next() {
                        Some('n') => Some('\n'),
                        Some('t') => Some('\t'),
                        Some('r') => Some('\r'),
                        Some('u') => self.code_point(),
                        Some(c @ ('\\' | '"' | '`')) => Some(c),
                        _ => None,
                    };
                    text.push(c.ok_or_else(|| {
                        let what = "unknown escape: there are \\n, \\t, \\r, \\\\, \\\", \\` and \\u{..}";
                        mistake(self.text, escape_line, escape_column, what)
                    })?);
                }
                Some('\n') | None => {
                    return Err(mistake(self.text, line, column, format!("no closing {quote} on the line")));
                }
                Some(c) => text.push(c),
            }
        }
    }

    /// `{7f}`, after `\u`.
    fn code_point(&mut self) -> Option<char> {
        if self.next() != Some('{') {
            return None;
        }
        let digits = self.take_while(|c| c.is_ascii_hexdigit());
        if self.next() != Some('}') {
            return None;
        }
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
    }
}
