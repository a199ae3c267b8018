//! The comments of a Rust file, and the text of a Markdown file, as blocks of lines.

use proc_macro2::{LexError, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Consecutive comment lines with one indentation and one marker, or a whole Markdown file.
pub(super) struct Block<'a> {
    /// The index of the first line in its file.
    pub(super) start: usize,
    /// `//`, `///`, `//!`, or nothing for Markdown.
    pub(super) marker: &'a str,
    /// The columns before the marker.
    pub(super) indent: usize,
    /// The text of each line: what follows the marker and one space.
    pub(super) lines: Vec<&'a str>,
}

impl Block<'_> {
    /// The indentation and the marker of each line.
    pub(super) fn prefix(&self) -> String {
        match self.marker {
            "" => String::new(),
            marker => format!("{:1$}{marker} ", "", self.indent),
        }
    }

    /// The columns before the text of a line.
    pub(super) fn margin(&self) -> usize {
        self.prefix().len()
    }

    /// Returns whether these are doc comments.
    pub(super) fn is_doc(&self) -> bool {
        self.marker.len() == 3
    }
}

/// The blocks of a file of this name: Markdown, or else Rust.
pub(super) fn of<'a>(path: &str, text: &'a str) -> Result<Vec<Block<'a>>, LexError> {
    if path.ends_with(".md") {
        return Ok(vec![Block { start: 0, marker: "", indent: 0, lines: text.lines().collect() }]);
    }
    of_rust(text)
}

/// The comments of a Rust file that have lines of their own. Lines within string literals are not
/// comments.
fn of_rust(text: &str) -> Result<Vec<Block<'_>>, LexError> {
    let literals = lines_within_literals(text)?;
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((marker, content)) = comment(line.trim_start()).filter(|_| !literals.contains(&index)) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        match blocks.last_mut() {
            Some(last) if last.start + last.lines.len() == index && (last.marker, last.indent) == (marker, indent) => {
                last.lines.push(content);
            }
            _ => blocks.push(Block { start: index, marker, indent, lines: vec![content] }),
        }
    }
    Ok(blocks)
}

/// The marker and the text of a comment line. `//text`, `//~ text` and `////` are not prose.
fn comment(line: &str) -> Option<(&str, &str)> {
    let length = if line.starts_with("///") || line.starts_with("//!") { 3 } else { 2 };
    let (marker, rest) = line.split_at_checked(length).filter(|(marker, _)| marker.starts_with("//"))?;
    let content = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
    Some((marker, content))
}

/// The indices of lines that begin within a literal or a block comment for documentation.
fn lines_within_literals(text: &str) -> Result<BTreeSet<usize>, LexError> {
    let mut lines = BTreeSet::new();
    let mut streams = vec![text.parse::<TokenStream>()?];
    while let Some(stream) = streams.pop() {
        for token in stream {
            match token {
                TokenTree::Group(group) => streams.push(group.stream()),
                TokenTree::Literal(literal) => {
                    let span = literal.span();
                    // The first line has the number 1.
                    lines.extend(span.start().line..span.end().line);
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
    Ok(lines)
}
