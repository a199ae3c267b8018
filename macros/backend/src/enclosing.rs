//! Detects the block that encloses an attribute from the text of the file, because a macro gets
//! only its own item.

use std::path::Path;

/// Returns true if the line (counted from 1) of a file is directly in an `impl` or `trait`, judged
/// by the indentation that rustfmt produces.
///
/// A false negative only costs the quality of a message. There are no false positives in formatted
/// code: a line that is indented deeper than the first line of a block, with nothing less indented
/// in between, is in the block.
pub(crate) fn is_in_impl(file: &Path, line: usize) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| opener(&text, line).is_some_and(opens_impl))
}

/// Returns the first line of the innermost block around a line.
fn opener(text: &str, line: usize) -> Option<&str> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let (own, above) = lines.split_last()?;
    let mut above = above.iter().rev().filter(|line| !line.trim().is_empty());
    let last = above.find(|line| indent(line) < indent(own))?;
    if !last.trim_end().ends_with('{') {
        return None;
    }
    // `where` and its bounds, and a brace on its own line, belong to a line above.
    let is_begun = |line: &str| !matches!(line.trim_start().split([' ', '{']).next(), Some("" | "where"));
    if is_begun(last) {
        return Some(last);
    }
    above.find(|line| indent(line) <= indent(last) && is_begun(line)).copied()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn opens_impl(line: &str) -> bool {
    let mut words = line.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let mut is_public = false;
    loop {
        match words.next() {
            Some("impl" | "trait") => return true,
            Some("pub") => is_public = true,
            Some("crate" | "super") if is_public => {}
            Some("unsafe" | "default" | "const") => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        for (text, expected) in [
            ("impl A {\n    #[packed_func]", true),
            ("unsafe impl<T> A<T> for B {\n    fn a() {\n    }\n\n    #[packed_func]", true),
            ("impl<T> A<T>\nwhere\n    T: X,\n{\n    #[packed_func]", true),
            ("pub(crate) trait A {\n    #[packed_func]", true),
            ("mod m {\n    impl A {\n    }\n    #[packed_func]", false),
            ("impl A { fn a() {} }\n  #[packed_func]", false),
            ("impl A {\n}\n\n#[packed_func]", false),
            ("fn implement() {\n    #[packed_func]", false),
            ("impl A {\n    fn a() {\n        #[packed_func]", false),
            ("#[packed_func]", false),
            ("", false),
        ] {
            assert_eq!(opener(text, text.lines().count()).is_some_and(opens_impl), expected, "{text}");
        }
    }
}
