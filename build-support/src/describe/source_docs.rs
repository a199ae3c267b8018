//! The comment before a kernel: its documentation, and the declaration in it.

/// The contents of a comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceDoc {
    /// The text without comment marks, common indentation and the declaration.
    pub(crate) text: String,
    /// The text after `kernpack:`, up to the closing parenthesis and the result.
    pub(crate) declaration: Option<String>,
}

/// The start of a declaration's line.
const MARK: &str = "kernpack:";

/// Reads the comment directly before the declaration that begins before `position`, in a text of C,
/// C++, CUDA or OpenCL C.
///
/// `code` is the same text with spaces in place of comments and literals. An empty line separates a
/// comment from unrelated code.
pub(crate) fn before(source: &str, code: &str, position: usize) -> SourceDoc {
    let start = declaration_start(code, position);
    let Some(before) = source.get(..start) else { return SourceDoc::default() };
    let trimmed = before.trim_end();
    if before[trimmed.len()..].matches('\n').count() > 1 {
        return SourceDoc::default();
    }
    if let Some(comment) = trimmed.strip_suffix("*/") {
        let Some(open) = comment.rfind("/*") else { return SourceDoc::default() };
        // A comment after code on the same line is about that code.
        let line = &code[..open].rsplit('\n').next().unwrap_or_default();
        return if line.trim().is_empty() { read(block_lines(&comment[open + 2..])) } else { SourceDoc::default() };
    }
    let mut lines = Vec::new();
    for line in trimmed.lines().rev() {
        let Some(text) = line.trim_start().strip_prefix("//") else { break };
        lines.push(text.trim_start_matches(['/', '!']).to_owned());
    }
    lines.reverse();
    read(lines)
}

/// Reads the `;` comments directly before a line of LLVM IR.
pub(crate) fn before_ir(source: &str, position: usize) -> SourceDoc {
    let start = source[..position].rfind('\n').map_or(0, |end| end + 1);
    let lines = source[..start].lines().rev().map_while(|line| line.trim_start().strip_prefix(';'));
    let mut lines: Vec<String> = lines.map(|line| line.trim_start_matches(';').to_owned()).collect();
    lines.reverse();
    read(lines)
}

/// Returns the start of the declaration that contains the word at `position`: after the last
/// statement, block or preprocessor line.
fn declaration_start(code: &str, position: usize) -> usize {
    let before = &code[..position];
    let mut start = before.rfind([';', '}', '{']).map_or(0, |end| end + 1);
    let mut at = start;
    for line in before[start..].split_inclusive('\n') {
        at += line.len();
        if line.trim_start().starts_with('#') && line.ends_with('\n') {
            start = at;
        }
    }
    let blank = code[start..].len() - code[start..].trim_start().len();
    start + blank
}

/// Returns the lines between `/*` and `*/`, without a column of stars.
fn block_lines(text: &str) -> Vec<String> {
    let text = text.trim_start_matches(['*', '!']);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let has_stars = lines.iter().skip(1).all(|line| line.trim().is_empty() || line.trim_start().starts_with('*'));
    for line in lines.iter_mut().skip(1) {
        if has_stars && let Some(rest) = line.trim_start().strip_prefix('*') {
            *line = rest.to_owned();
        }
    }
    // The first line begins after the mark, wherever the mark is.
    if let Some(first) = lines.first_mut() {
        *first = format!(" {}", first.trim_start());
    }
    lines
}

/// Removes characters that rustc rejects in comments and text: those that change the text
/// direction, and lone control characters.
fn harmless(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if turns || c.is_control() && c != '\t' { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// Extracts the declaration, and removes the common indentation of all lines.
fn read(lines: Vec<String>) -> SourceDoc {
    let mut lines: Vec<String> = lines.into_iter().map(|line| harmless(&line)).collect();
    let mut declaration = None;
    if let Some(first) = lines.iter().position(|line| line.trim_start().starts_with(MARK)) {
        let mut text = String::new();
        let mut last = first;
        for (index, line) in lines.iter().enumerate().skip(first) {
            text.push_str(line.trim());
            text.push(' ');
            last = index;
            if text.contains(')') || line.trim().is_empty() {
                break;
            }
        }
        declaration = Some(text.trim().trim_start_matches(MARK).trim().to_owned());
        lines.drain(first..=last);
    }
    let used = |line: &&String| !line.trim().is_empty();
    let indent = lines.iter().filter(used).map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or_default().trim_end()).collect();
    let text = lines.join("\n").trim_matches('\n').to_owned();
    SourceDoc { text, declaration }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::device_source::without_comments;

    fn doc(source: &str) -> SourceDoc {
        let code = without_comments(source);
        assert_eq!(code.len(), source.len(), "{source}");
        before(source, &code, code.find("KERNEL").unwrap())
    }

    #[test]
    fn comments_become_text() {
        #[rustfmt::skip]
        let rows = [
            ("/* One. */\nvoid KERNEL(f)", "One."),
            ("// One.\n//  Two.\nKERNEL(f)", "One.\n Two."),
            ("/// One.\n///\n/// Two.\nextern \"C\"\nvoid KERNEL(f)", "One.\n\nTwo."),
            ("/** One.\n *\n *     code\n */\nKERNEL(f)", "One.\n\n    code"),
            ("/*\n  One.\n    Two. */\nKERNEL(f)", "One.\n  Two."),
            ("// Not.\n\nKERNEL(f)", ""), ("int x; // Not.\nKERNEL(f)", ""), ("int x; /* Not. */\nKERNEL(f)", ""),
            ("int x;\n// One.\nKERNEL(f)", "One."), ("// Not.\n#include <a.h>\nKERNEL(f)", ""),
            ("#include <a.h>\n// One.\nKERNEL(f)", "One."), ("KERNEL(f)", ""), ("extern \"C\" {\n// Größe; {x}.\nKERNEL(f)", "Größe; {x}."),
            ("// One.\n__attribute__((x)) KERNEL(f)", "One."),
            ("// a\u{202e}b \u{2066}\u{1b}[1m\tc\nKERNEL(f)", "a\\u{202e}b \\u{2066}\\u{1b}[1m\tc"),
        ];
        for (source, expected) in rows {
            assert_eq!(doc(source), SourceDoc { text: expected.to_owned(), declaration: None }, "{source}");
        }
    }

    #[test]
    fn declarations_are_taken_out() {
        let found = doc(
            "/* Blurs.\n *\n * kernpack: blur(src: Tensor,\n *                radius: int) -> None\n *\n * More. */\nKERNEL(f)",
        );
        assert_eq!(found.text, "Blurs.\n\n\nMore.");
        assert_eq!(found.declaration.as_deref(), Some("blur(src: Tensor, radius: int) -> None"));
    }

    #[test]
    fn ir_has_comments_of_its_own() {
        let source = "; Not.\n\n; One.\n;  Two.\ndefine i32 @f() {";
        assert_eq!(before_ir(source, source.find("@f").unwrap()).text, "One.\n Two.");
        assert_eq!(before_ir("define", 3), SourceDoc::default());
    }
}
