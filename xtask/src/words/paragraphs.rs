//! Paragraphs of prose in Markdown, and the places where their lines may be broken.

/// A paragraph, or the first paragraph of a list item.
pub(super) struct Paragraph<'a> {
    /// The index of the first line in its block.
    pub(super) start: usize,
    /// The indentation of the first line, with the marker of a list item.
    pub(super) head: &'a str,
    /// The indentation of further lines.
    pub(super) rest: usize,
    /// The lines without indentation.
    pub(super) lines: Vec<&'a str>,
}

impl Paragraph<'_> {
    /// Returns whether this is a list item.
    pub(super) fn is_item(&self) -> bool {
        !self.head.trim().is_empty()
    }
}

/// The paragraphs of prose in these lines: without headings, tables, code, quotes and HTML.
pub(super) fn of<'a>(lines: &[&'a str]) -> Vec<Paragraph<'a>> {
    let mut paragraphs: Vec<Paragraph<'a>> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut is_open = false;
    // Where text of list items begins.
    let mut indents = vec![0];
    for (start, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let is_fence = text.starts_with("```") || text.starts_with("~~~");
        let is_comment = text.starts_with("<!--") && !text.contains("-->");
        if is_fence || is_comment || fence.is_some() {
            match fence {
                Some("-->") if text.contains("-->") => fence = None,
                Some(open) if text.starts_with(open) => fence = None,
                Some(_) => {}
                None if is_comment => fence = Some("-->"),
                None => fence = Some(&text[..3]),
            }
            is_open = false;
        } else if text.is_empty() || is_structure(text) {
            is_open = false;
        } else if let Some(length) = list_marker(text) {
            let (head, text) = line.split_at(indent + length);
            indents.push(head.len());
            paragraphs.push(Paragraph { start, head, rest: head.len(), lines: vec![text] });
            is_open = true;
        } else {
            let last = paragraphs.last_mut().filter(|_| is_open && !begins_with_label(text));
            match last {
                Some(last) if indent == last.rest || last.is_item() && last.lines.len() == 1 && indent > 0 => {
                    last.rest = indent;
                    last.lines.push(text);
                }
                _ if indents.contains(&indent) => {
                    paragraphs.push(Paragraph { start, head: &line[..indent], rest: indent, lines: vec![text] });
                    is_open = true;
                }
                // An indentation that no list explains: code, or a drawing.
                _ => is_open = false,
            }
        }
    }
    paragraphs
}

/// The parts of a text between which a line may end: code in backticks stays together, and no part
/// begins like a list item or a heading.
pub(super) fn units(text: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(step) = text[at..].find([' ', '`']) {
        at += step;
        let run = text[at..].len() - text[at..].trim_start_matches('`').len();
        if run > 0 {
            at += run + code_length(&text[at + run..], run).unwrap_or(0);
            continue;
        }
        if may_begin_line(&text[at + 1..]) {
            units.push(&text[start..at]);
            start = at + 1;
        }
        at += 1;
    }
    units.push(&text[start..]);
    units
}

/// As [`units`], but code in backticks is broken as well.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(' ').filter(|(at, _)| may_begin_line(&text[at + 1..])) {
        words.push(&text[start..at]);
        start = at + 1;
    }
    words.push(&text[start..]);
    words
}

/// The length of code and of the backticks that close it, after `run` backticks that open it.
fn code_length(text: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('`')?;
        let length = text[at..].len() - text[at..].trim_start_matches('`').len();
        at += length;
        if length == run {
            return Some(at);
        }
    }
}

/// Returns whether a line may begin with this text and still belong to its paragraph.
fn may_begin_line(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    let alone = format!("{word} ");
    !is_structure(word) && list_marker(&alone).is_none() && !begins_with_label(&alone) && !word.starts_with("```")
}

/// Returns whether a line is a heading, part of a table, a quote, a rule, HTML, a link definition
/// or the name of an excerpt.
fn is_structure(text: &str) -> bool {
    let is_html = text.starts_with('<') && !text.starts_with("<http");
    let is_definition = text.starts_with('[') && text.contains("]:");
    let is_rule = ["---", "===", "***", "___"].iter().any(|rule| text.starts_with(rule));
    let is_excerpt = text.starts_with("ANCHOR") || text.starts_with("{{");
    text.starts_with(['#', '|', '>']) || is_html || is_definition || is_rule || is_excerpt
}

/// The length of the marker of a list item, with the spaces behind it.
fn list_marker(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marker = match digits {
        0 => text.starts_with(['-', '*', '+']),
        1..=3 => text[digits..].starts_with(['.', ')']),
        _ => false,
    };
    let rest = text.get(digits + 1..).filter(|rest| marker && rest.starts_with(' '))?;
    Some(text.len() - rest.trim_start().len())
}

/// Returns whether a text begins with a label like `SAFETY:` or `TODO:`.
fn begins_with_label(text: &str) -> bool {
    let label = text.split_once(": ").map_or("", |(label, _)| label);
    label.len() > 1 && label.chars().all(|c| c.is_ascii_uppercase())
}
