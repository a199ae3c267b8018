//! The problems of one file.

use super::WIDTH;
use super::comments::{self, Block};
use super::paragraphs::{self, Paragraph, words};
use super::phrases;
use super::wrap::width;
use crate::Result;
use std::fmt;

/// Words with which a doc comment does not begin.
const QUESTIONS: [&str; 7] = ["What", "Whether", "How", "Where", "Which", "Who", "Why"];

/// A problem on one line.
pub(super) struct Problem {
    path: String,
    /// The number of the line in its file, from 1.
    line: usize,
    text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// The problems of a Rust or a Markdown file, by line.
pub(super) fn of(path: &str, text: &str) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for block in &comments::of(path, text)? {
        for paragraph in paragraphs::of(&block.lines) {
            let mut report = |line: usize, text: String| {
                let line = block.start + paragraph.start + line + 1;
                problems.push(Problem { path: path.to_string(), line, text });
            };
            if let Some(word) = question(block, &paragraph) {
                let advice = "begin with a noun phrase or a verb (\"The strides of ...\", \"Returns whether ...\")";
                report(0, format!("a doc comment begins with '{word}': {advice}"));
            }
            for (index, columns) in long_lines(block, &paragraph) {
                let advice = format!("wrap it at {WIDTH} (`cargo xtask words --wrap {path}`)");
                report(index, format!("{columns} columns: {advice}"));
            }
            // Of a comment that is not documentation, only the form is checked.
            if block.is_doc() || block.marker.is_empty() {
                for (index, found, instead) in phrases::find(&paragraph.lines) {
                    report(index, format!("'{found}': write {instead}"));
                }
            }
        }
    }
    problems.sort_by_key(|problem| problem.line);
    Ok(problems)
}

/// The first word of a paragraph of documentation, if it is one of [`QUESTIONS`].
fn question<'a>(block: &Block<'_>, paragraph: &Paragraph<'a>) -> Option<&'a str> {
    let word = paragraph.lines.first()?.split(|c: char| !c.is_alphabetic()).next()?;
    (block.is_doc() && !paragraph.is_item() && QUESTIONS.contains(&word)).then_some(word)
}

/// The lines that are too long and can be broken: their indices and columns.
fn long_lines(block: &Block<'_>, paragraph: &Paragraph<'_>) -> Vec<(usize, usize)> {
    let mut long = Vec::new();
    for (index, line) in paragraph.lines.iter().enumerate() {
        let indent = if index == 0 { paragraph.head.len() } else { paragraph.rest };
        let columns = block.margin() + indent + width(line);
        if columns > WIDTH && !line.contains("://") && words(line).len() > 1 {
            long.push((index, columns));
        }
    }
    long
}
