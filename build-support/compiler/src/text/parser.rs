//! The state of the parser: the next token, the meaning of names, errors.

use std::collections::HashMap;

use kernpack::DataType;

use super::token::{Spot, Token, mistake, tokens};
use crate::error::{CompileError, Result};
use crate::ir::dtype::parse_short_name;
use crate::ir::{Buffer, DataTypeExt, Expr, Tensor, Var};

/// The meaning of a name.
#[derive(Clone)]
pub(super) enum Item {
    Var(Var),
    Buffer(Buffer),
    Tensor(Tensor),
}

/// The meaning of the free names of a text.
#[derive(Clone, Default)]
pub struct Scope(pub(super) HashMap<String, Item>);

impl Scope {
    /// Creates an empty scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable with its own name.
    #[must_use]
    pub fn var(mut self, var: &Var) -> Self {
        self.0.insert(var.name().to_owned(), Item::Var(var.clone()));
        self
    }

    /// Adds a buffer with its own name, and its data pointer as `name.data`.
    #[must_use]
    pub fn buffer(mut self, buffer: &Buffer) -> Self {
        self.0.insert(buffer.name.to_string(), Item::Buffer(buffer.clone()));
        self.0.insert(format!("{}.data", buffer.name), Item::Var(buffer.data.clone()));
        self
    }

    /// Adds a tensor with its own name.
    #[must_use]
    pub fn tensor(mut self, tensor: &Tensor) -> Self {
        self.0.insert(tensor.name(), Item::Tensor(tensor.clone()));
        self
    }
}

/// Reads tokens one after the other.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    spots: Vec<Spot>,
    at: usize,
    names: HashMap<String, Item>,
    /// The previous meanings of names, which are restored at the end of a scope.
    shadowed: Vec<(String, Option<Item>)>,
    /// All names that were bound so far, in scope or not.
    pub(super) known: HashMap<String, Item>,
    pub(super) given: Scope,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, scope: &Scope) -> Result<Self> {
        Ok(Self {
            text,
            spots: tokens(text)?,
            at: 0,
            names: scope.0.clone(),
            shadowed: Vec::new(),
            known: scope.0.clone(),
            given: scope.clone(),
        })
    }

    /// Resets the names of a function; `same` still finds them.
    pub(super) fn reset_names(&mut self) {
        self.names = self.given.0.clone();
        self.shadowed.clear();
    }

    pub(super) fn peek(&self) -> &Token {
        &self.spots[self.at].token
    }

    pub(super) fn peek_after(&self, ahead: usize) -> &Token {
        &self.spots[(self.at + ahead).min(self.spots.len() - 1)].token
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.spots[self.at].token.clone();
        if self.at + 1 < self.spots.len() {
            self.at += 1;
        }
        token
    }

    /// The position of the next token, for a later error.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    pub(super) fn error_at(&self, place: usize, what: impl Into<String>) -> CompileError {
        let spot = &self.spots[place];
        mistake(self.text, spot.line, spot.column, what)
    }

    pub(super) fn error(&self, what: impl Into<String>) -> CompileError {
        self.error_at(self.at, what)
    }

    /// The error for an unexpected token.
    pub(super) fn expected(&self, what: &str) -> CompileError {
        self.error(format!("expected {what}, got {}", self.peek().describe()))
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn sign(&mut self, sign: &str) -> Result<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name { text, quoted: false } if text == word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    pub(super) fn name(&mut self) -> Result<String> {
        match self.peek() {
            Token::Name { .. } => match self.next() {
                Token::Name { text, .. } => Ok(text),
                _ => unreachable!("the token that was looked at"),
            },
            _ => Err(self.expected("a name")),
        }
    }

    pub(super) fn string(&mut self) -> Result<String> {
        match self.peek() {
            Token::Text(text) => {
                let text = text.clone();
                self.next();
                Ok(text)
            }
            _ => Err(self.expected("text in quotes")),
        }
    }

    /// An integer without a type.
    pub(super) fn integer(&mut self) -> Result<i64> {
        let negative = self.take_sign("-");
        match self.peek() {
            Token::Number { digits, suffix } if suffix.is_empty() => {
                let value = format!("{}{digits}", if negative { "-" } else { "" }).parse();
                let value = value.map_err(|_| self.expected("an integer of 64 bits"))?;
                self.next();
                Ok(value)
            }
            _ => Err(self.expected("an integer without a type")),
        }
    }

    pub(super) fn skip_newlines(&mut self) {
        while *self.peek() == Token::Newline || self.is_sign(";") {
            self.next();
        }
    }

    pub(super) fn dtype_of(text: &str) -> Option<DataType> {
        parse_short_name(text).or_else(|| text.parse().ok())
    }

    pub(super) fn dtype(&mut self) -> Result<DataType> {
        let found = match self.peek() {
            Token::Name { text, .. } => Self::dtype_of(text),
            _ => None,
        };
        let Some(dtype) = found else { return Err(self.expected("a type like f32, i64x4, bool or ptr")) };
        self.next();
        Ok(dtype)
    }

    /// Defines a name until the end of the scope.
    pub(super) fn define(&mut self, name: &str, item: Item) {
        self.known.insert(name.to_owned(), item.clone());
        let before = self.names.insert(name.to_owned(), item);
        self.shadowed.push((name.to_owned(), before));
    }

    /// Defines a name until the end of the function.
    pub(super) fn define_lasting(&mut self, name: &str, item: Item) {
        self.known.insert(name.to_owned(), item.clone());
        self.names.insert(name.to_owned(), item);
    }

    /// Starts a scope; `leave` with the result ends it.
    pub(super) fn enter(&self) -> usize {
        self.shadowed.len()
    }

    pub(super) fn leave(&mut self, mark: usize) {
        for (name, before) in self.shadowed.drain(mark..).rev() {
            match before {
                Some(item) => self.names.insert(name, item),
                None => self.names.remove(&name),
            };
        }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<&Item> {
        self.names.get(name)
    }

    /// The error for an unknown name, with similar names.
    pub(super) fn unknown(&self, place: usize, name: &str, what: &str) -> CompileError {
        let error = self.error_at(place, format!("unknown {what} `{name}`"));
        match self.known.contains_key(name) {
            true => error.note("it was defined in a body that has ended"),
            false => error,
        }
    }

    /// A variable that was bound before, after the word `same`.
    pub(super) fn same_var(&mut self) -> Result<Var> {
        let place = self.place();
        let name = self.name()?;
        match self.known.get(&name).cloned() {
            Some(Item::Var(var)) => {
                self.define(&name, Item::Var(var.clone()));
                Ok(var)
            }
            _ => Err(self.unknown(place, &name, "variable")),
        }
    }

    /// `name`, `name: type`, `name: size type`; `default` is the type if there is none. The
    /// variable is not in scope yet.
    pub(super) fn binder(&mut self, default: Option<DataType>) -> Result<(String, Var)> {
        if self.take_word("same") {
            let place = self.place();
            let name = self.name()?;
            let Some(Item::Var(var)) = self.known.get(&name).cloned() else {
                return Err(self.unknown(place, &name, "variable"));
            };
            if self.take_sign(":") {
                self.take_word("size");
                self.dtype()?;
            }
            return Ok((name, var));
        }
        let name = self.name()?;
        let (mut size, mut dtype) = (false, default);
        if self.take_sign(":") {
            size = self.take_word("size");
            dtype = Some(self.dtype()?);
        }
        let Some(dtype) = dtype else { return Err(self.expected("`:` and a type")) };
        let var = if size { Var::size(&name, dtype) } else { Var::new(&name, dtype) };
        Ok((name, var))
    }

    pub(super) fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.take_sign(close) {
            if !items.is_empty() {
                if !self.is_sign(",") {
                    return Err(self.expected(&format!("`,` or `{close}`")));
                }
                self.next();
                if self.take_sign(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `0..n` or `m..+n`: the first value and the number of values.
    pub(super) fn range(&mut self) -> Result<(Expr, Expr)> {
        let min = self.value()?;
        let place = self.place();
        if self.take_sign("..+") {
            let extent = self.value()?;
            return self.fit(place, "a range", min, extent);
        }
        self.sign("..")?;
        if !min.expr.is_int(0) {
            return Err(self
                .error_at(place, "a range with `..` begins at 0")
                .note("write `m..+n` for n values from m"));
        }
        let extent = self.value()?;
        self.fit(place, "a range", min, extent)
    }

    pub(super) fn buffer(&mut self) -> Result<Buffer> {
        let place = self.place();
        let name = self.name()?;
        match self.lookup(&name) {
            Some(Item::Buffer(buffer)) => Ok(buffer.clone()),
            _ => Err(self.unknown(place, &name, "buffer")),
        }
    }

    pub(super) fn tensor(&mut self) -> Result<Tensor> {
        let place = self.place();
        let name = self.name()?;
        match self.lookup(&name) {
            Some(Item::Tensor(tensor)) => Ok(tensor.clone()),
            _ => Err(self.unknown(place, &name, "tensor").note("declare it before the function: `tensor t: f32[n]`")),
        }
    }

    pub(super) fn same_type(&self, place: usize, what: &str, a: DataType, b: DataType) -> Result<()> {
        if a == b {
            return Ok(());
        }
        Err(self.error_at(place, format!("{what} of {} and {}", a.short_name(), b.short_name())))
    }
}
