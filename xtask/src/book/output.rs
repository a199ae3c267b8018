//! Compares the output that a page shows with the output of a program.
//!
//! A line `...` matches any lines, also none; `...` within a line matches any text. Spaces at the
//! ends of lines and empty lines at the end are ignored.

/// Compares.
///
/// # Errors
/// Both texts, with the first line that has no counterpart.
pub(crate) fn compare(expected: &str, actual: &str) -> Result<(), String> {
    let lines =
        |text: &str| -> Vec<String> { text.trim_end().lines().map(|line| line.trim_end().to_string()).collect() };
    let (expected, actual) = (lines(expected), lines(actual));
    if matches(&expected, &actual) {
        return Ok(());
    }
    // The longest prefix of the page's lines that matches the beginning of the output.
    let dots = "...".to_string();
    let good = (0..=expected.len())
        .rev()
        .find(|&count| matches(&[&expected[..count], std::slice::from_ref(&dots)].concat(), &actual))
        .unwrap_or_default();
    let line = expected.get(good).map_or("(nothing more)", String::as_str);
    Err(format!(
        "the output is another one, from this line of the page on: {line}\n--- the page says\n{}\n--- it is\n{}\n---",
        expected.join("\n"),
        actual.join("\n")
    ))
}

/// The output of a test of a page, from the output of `cargo test -- --show-output`; empty if it is
/// missing.
pub(crate) fn of_test(output: &str, name: &str) -> String {
    let header = format!("---- page_tests::{name} stdout ----\n");
    let Some((_, rest)) = output.split_once(&header) else { return String::new() };
    let ends = ["\n---- page_tests::", "\nsuccesses:\n", "\nfailures:\n"];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    rest[..end].to_string()
}

fn matches(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=actual.len()).any(|skipped| matches(rest, &actual[skipped..]))
        }
        Some((first, rest)) => {
            actual.split_first().is_some_and(|(line, more)| line_matches(first, line) && matches(rest, more))
        }
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let Some((before, after)) = expected.split_once("...") else { return expected == actual };
    let Some(rest) = actual.strip_prefix(before) else { return false };
    let starts = rest.char_indices().map(|(start, _)| start).chain([rest.len()]);
    starts.into_iter().any(|start| line_matches(after, &rest[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_one_test_is_found() {
        let said = "running 2 tests\n..\nsuccesses:\n\n---- page_tests::line_7 stdout ----\na\n\nb\n\n\n---- page_tests::line_12 stdout ----\nc\n\n\nsuccesses:\n    page_tests::line_7\n";
        for (name, expected) in [("line_7", "a\n\nb"), ("line_12", "c"), ("line_1", "")] {
            assert_eq!(of_test(said, name).trim_end(), expected, "{name}");
        }
    }

    #[test]
    fn dots_stand_for_lines_and_for_text() {
        for (expected, actual, same) in [
            ("a\nb\n", "a  \nb\n\n", true),
            ("...\nb", "1\n2\nb", true),
            ("a\n...\n", "a", true),
            ("a\n...\nc", "a\nb", false),
            ("done in ... s", "done in 1.5 s", true),
            ("done in ... s, ... left", "done in 1 s, none left", true),
            ("done in ... s", "done in 1.5 ms!", false),
            ("...: größer", "x: größer", true),
            ("", "", true),
            ("", "more", false),
        ] {
            assert_eq!(compare(expected, actual).is_ok(), same, "{expected:?} {actual:?}");
        }
    }

    #[test]
    fn the_first_wrong_line_is_named() {
        let error = compare("a\n...\nx", "a\nb\nc").unwrap_err();
        assert!(
            error.starts_with("the output is another one, from this line of the page on: x\n--- the page says\n"),
            "{error}"
        );
        assert!(compare("a", "a\nb").unwrap_err().contains("(nothing more)"));
    }
}
