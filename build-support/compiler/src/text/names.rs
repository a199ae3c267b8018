//! Names in the text: each variable, buffer and tensor gets a unique one.

use std::collections::{HashMap, HashSet};

use crate::ir::{Buffer, Tensor, Var};

/// Keywords, which are written in backticks when used as names.
pub(super) const KEYWORDS: &[&str] = &[
    "alias",
    "alloc",
    "as",
    "assert",
    "attr",
    "axis",
    "buffer",
    "device",
    "else",
    "eval",
    "extern",
    "false",
    "for",
    "func",
    "function",
    "handle",
    "host",
    "if",
    "in",
    "inf",
    "internal",
    "let",
    "llvm",
    "mut",
    "nan",
    "packed",
    "parallel",
    "prefetch",
    "pure_extern",
    "realize",
    "reducer",
    "return",
    "same",
    "size",
    "tensor",
    "thread_binding",
    "true",
    "unrolled",
    "var",
    "vectorized",
    "view",
    "where",
    "while",
    "builtin",
    "module",
    "none",
    "json",
    "dtype",
    "expr",
];

/// Returns true if a character is valid in a name without backticks, except at its start.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// A name in the text form: in backticks unless it is a plain word, which may contain dots.
pub(super) fn quoted(name: &str) -> String {
    let plain = name.split('.').enumerate().all(|(at, part)| {
        !part.is_empty()
            && part.chars().all(is_name_char)
            && (at > 0 || !part.starts_with(|c: char| c.is_ascii_digit()))
    });
    let special = name.starts_with("inf_") || name.starts_with("nan_") || KEYWORDS.contains(&name);
    if plain && !special {
        return name.to_owned();
    }
    let mut text = String::from("`");
    escape(name, '`', &mut text);
    text.push('`');
    text
}

/// A string literal.
pub(super) fn string(value: &str) -> String {
    let mut text = String::from("\"");
    escape(value, '"', &mut text);
    text.push('"');
    text
}

fn escape(value: &str, quote: char, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// The names that are assigned so far.
#[derive(Default)]
pub(super) struct Names {
    vars: HashMap<Var, String>,
    buffers: HashMap<Buffer, String>,
    tensors: HashMap<(usize, i64), String>,
    used: HashSet<String>,
}

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "v" } else { name };
        if self.used.insert(name.to_owned()) {
            return name.to_owned();
        }
        let mut number = 1;
        loop {
            let candidate = format!("{name}_{number}");
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
            number += 1;
        }
    }

    /// The name of a variable; the first call assigns it.
    pub(super) fn var(&mut self, var: &Var) -> String {
        if let Some(name) = self.vars.get(var) {
            return quoted(name);
        }
        let name = self.unique(var.name());
        self.vars.insert(var.clone(), name.clone());
        quoted(&name)
    }

    /// The name of a buffer; its data pointer is named after it, unless it already has a name.
    pub(super) fn buffer(&mut self, buffer: &Buffer) -> String {
        if let Some(name) = self.buffers.get(buffer) {
            return quoted(name);
        }
        let name = self.unique(buffer.name.as_str());
        self.buffers.insert(buffer.clone(), name.clone());
        quoted(&name)
    }

    /// Names the data pointer of a buffer after the buffer; returns its name if it has another one.
    pub(super) fn data_of(&mut self, buffer: &Buffer) -> Option<String> {
        let expected = format!("{}.data", self.buffers.get(buffer).cloned().unwrap_or_default());
        if !self.vars.contains_key(&buffer.data) {
            let name = self.unique(&expected);
            self.vars.insert(buffer.data.clone(), name);
        }
        self.vars.get(&buffer.data).filter(|name| **name != expected).map(|name| quoted(name))
    }

    /// The name of a tensor; returns true as the second element if it is new.
    pub(super) fn tensor(&mut self, tensor: &Tensor) -> (String, bool) {
        if let Some(name) = self.tensors.get(&tensor.key()) {
            return (quoted(name), false);
        }
        let name = self.unique(&tensor.name());
        self.tensors.insert(tensor.key(), name.clone());
        (quoted(&name), true)
    }
}
