//! Documentation comments.

use std::fmt::Write as _;

/// Writes lines of documentation. Text of a source is not Markdown: indented lines become a text
/// block, not a Rust block.
pub(super) fn comment(out: &mut String, indent: usize, text: &str) {
    let space = " ".repeat(indent);
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("{space}/// {}", line.replace(['\r', '\u{b}', '\u{c}'], " ")).trim_end());
    }
}

/// Converts a comment of a source to Markdown that rustdoc shows and does not run.
pub(super) fn markdown(text: &str) -> String {
    let (mut out, mut in_block, mut in_fence, mut after_blank) = (String::new(), false, false, true);
    for line in text.lines() {
        let is_blank = line.trim().is_empty();
        let is_fence = line.trim_start().starts_with("```");
        if !in_fence && !is_blank {
            let indented = line.starts_with("    ") || line.starts_with('\t');
            if indented && !in_block && after_blank {
                out.push_str("```text\n");
                in_block = true;
            } else if !indented && in_block {
                out.push_str("```\n");
                in_block = false;
            }
        }
        if is_fence && !in_block {
            let marks = line.trim_start();
            // The contents of a fence are in the source's language, never Rust.
            let text = if !in_fence && marks.trim_end() == "```" { "text" } else { "" };
            in_fence = !in_fence;
            let _ = writeln!(out, "{line}{text}");
        } else if in_block || in_fence || line.contains('`') {
            let _ = writeln!(out, "{line}");
        } else {
            let _ = writeln!(out, "{}", line.replace('<', "\\<").replace('[', "\\["));
        }
        after_blank = is_blank;
    }
    if in_block || in_fence {
        out.push_str("```\n");
    }
    out
}

/// A name inside a sentence.
pub(super) fn quoted(name: &str) -> String {
    name.replace(['`', '\n', '\r'], "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_no_rust() {
        let rows = [
            ("Box blur.", "Box blur.\n"),
            (
                "A.\n\n    code [x]\n\n    more\nB <b> [c] `<d>`.",
                "A.\n\n```text\n    code [x]\n\n    more\n```\nB <b> [c] `<d>`.\n",
            ),
            ("B <b> [c].", "B \\<b> \\[c].\n"),
            ("```\nx\n```", "```text\nx\n```\n"),
            ("```c\nx\n```", "```c\nx\n```\n"),
            ("```\nx", "```text\nx\n```\n"),
            ("    x", "```text\n    x\n```\n"),
        ];
        for (text, expected) in rows {
            assert_eq!(markdown(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_have_no_space_at_the_end() {
        let mut out = String::new();
        comment(&mut out, 4, "A.  \n\nB.\n");
        assert_eq!(out, "    /// A.\n    ///\n    /// B.\n");
    }
}
