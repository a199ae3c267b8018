//! `cargo xtask words --wrap`: comments of at most 100 columns.
//!
//! A paragraph is wrapped if one of its lines is longer. rustfmt's `wrap_comments` does this with a
//! nightly toolchain only.

use super::WIDTH;
use super::comments::{self, Block};
use super::paragraphs::{self, Paragraph, units, words};
use crate::Result;

/// The text of a Rust file with wrapped comments, or of a Markdown file with wrapped paragraphs.
pub(super) fn file(path: &str, text: &str) -> Result<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    // From the end: what is wrapped moves the lines behind it.
    for block in comments::of(path, text)?.iter().rev() {
        for paragraph in paragraphs::of(&block.lines).iter().rev() {
            if is_too_long(block, paragraph) && !keeps_its_lines(block, paragraph) {
                let start = block.start + paragraph.start;
                let prefix = block.prefix();
                let wrapped = wrapped(block, paragraph).into_iter().map(|line| prefix.clone() + &line);
                lines.splice(start..start + paragraph.lines.len(), wrapped);
            }
        }
    }
    let mut wrapped = lines.join("\n");
    if text.ends_with('\n') {
        wrapped.push('\n');
    }
    Ok(wrapped)
}

/// Returns whether a line of the paragraph ends behind the last column.
fn is_too_long(block: &Block<'_>, paragraph: &Paragraph<'_>) -> bool {
    let indents = std::iter::once(paragraph.head.len()).chain(std::iter::repeat(paragraph.rest));
    paragraph.lines.iter().zip(indents).any(|(line, indent)| block.margin() + indent + width(line) > WIDTH)
}

/// Returns whether the lines of a paragraph have a meaning: columns, line breaks of Markdown, code.
fn keeps_its_lines(block: &Block<'_>, paragraph: &Paragraph<'_>) -> bool {
    let has_breaks = paragraph.lines.iter().any(|line| line.ends_with('\\'));
    let has_columns = units(&paragraph.lines.join(" ")).contains(&"");
    has_breaks || has_columns || block.marker == "//" && is_code(&paragraph.lines)
}

/// Returns whether lines of a comment are Rust code.
fn is_code(lines: &[&str]) -> bool {
    let is_code_line = |line: &&str| !line.contains('`') && (line.ends_with(['{', '}']) || line.ends_with(");"));
    lines.iter().any(is_code_line) || syn::parse_str::<syn::Block>(&format!("{{{}}}", lines.join("\n"))).is_ok()
}

/// The lines of a paragraph, with their indentation.
fn wrapped(block: &Block<'_>, paragraph: &Paragraph<'_>) -> Vec<String> {
    let room = WIDTH.saturating_sub(block.margin() + paragraph.rest).max(WIDTH / 3);
    let rest = " ".repeat(paragraph.rest);
    let mut lines: Vec<String> = Vec::new();
    for text in runs(paragraph, room) {
        let indent = if lines.is_empty() { paragraph.head } else { &rest };
        lines.extend(fill(&text, room).into_iter().enumerate().map(|(index, line)| match index {
            0 => format!("{indent}{line}"),
            _ => format!("{rest}{line}"),
        }));
    }
    lines
}

/// The texts between deliberate line breaks: ends of sentences before which there is room for more.
fn runs(paragraph: &Paragraph<'_>, room: usize) -> Vec<String> {
    let mut runs: Vec<String> = Vec::new();
    let mut is_broken = true;
    for (index, line) in paragraph.lines.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if !is_broken => {
                run.push(' ');
                run.push_str(line);
            }
            _ => runs.push((*line).to_string()),
        }
        let next = paragraph.lines.get(index + 1).map_or(0, |next| width(units(next)[0]));
        is_broken = line.ends_with(['.', ':', ';', '!', '?']) && width(line) + 1 + next <= room;
    }
    runs
}

/// As many parts of a text on each line as there is room for.
fn fill(text: &str, room: usize) -> Vec<String> {
    let parts = units(text).into_iter().flat_map(|unit| if width(unit) > room { words(unit) } else { vec![unit] });
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(part) <= room => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(part.to_string()),
        }
    }
    lines
}

/// The number of characters.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}
