use super::{is_below, problems, unknown, wrap};

/// The problems of a file `a.rs`, without advice.
fn found(text: &str) -> Vec<String> {
    let problems = problems::of("a.rs", text).unwrap();
    problems.iter().map(|problem| problem.to_string().rsplit_once(": ").unwrap().0.to_string()).collect()
}

/// Wraps a Rust file, twice.
fn wrapped(text: &str) -> String {
    let once = wrap::file("a.rs", text).unwrap();
    assert_eq!(wrap::file("a.rs", &once).unwrap(), once, "wrapping once more changes nothing");
    once
}

#[test]
fn first_words_of_paragraphs_are_checked() {
    let text = "/// What a call gives.\n/// How it does that.\n///\n/// Whether it\u{2019}s true.\n///\n/// # Where\n\
        ///\n/// - Which item\n///\n/// ```\n/// Why not\n/// ```\n\
        // How this works.\nfn f() {}\n/// Whatever.\nconst S: &str = \"\n/// What\n\";\n";
    assert_eq!(
        found(text),
        ["a.rs:1: a doc comment begins with 'What'", "a.rs:4: a doc comment begins with 'Whether'"]
    );
}

#[test]
fn long_lines_are_checked() {
    let long = "word ".repeat(19) + "words"; // 100 columns
    for (line, is_long) in [
        (format!("// {}", &long[3..]), false),
        (format!("// {}", &long[2..]), true),
        (format!("    /// - {}", &long[9..]), true),
        (format!("// {long} https://example.org"), false),
        (format!("// {}", "w".repeat(120)), false),
        (format!("/// | {long} |"), false),
        (format!("/// # {long}"), false),
        (format!("//! ```\n//! {long}\n//! ```"), false),
        (format!("// {}\u{e4}", &long[4..]), false),
        (format!("let text = \"\n// {long}\";"), false),
        (format!("f(); // {long}"), false),
    ] {
        assert_eq!(!found(&line).is_empty(), is_long, "{line}");
    }
}

#[test]
fn phrases_are_checked_in_prose() {
    for (line, expected) in [
        ("/// An argument that is no pointer.", "a.rs:1: 'that is no'"),
        ("/// Values that\n/// are none of those.", "a.rs:1: 'that are none'"),
        ("/// The tools that are\n/// at hand.", "a.rs:2: 'at hand'"),
        ("/// A loop that is no longer needed, `whoever` it is.", ""),
        ("/// Values are no\n/// larger; \u{c4} tools at handles.", ""),
        ("// Only documentation is read by whoever.", ""),
    ] {
        assert_eq!(found(line).join(" "), expected, "{line}");
    }
    let problems = problems::of("README.md", "# Whoever\n\nIt is\nno tool.\n\n```\nwhoever\n```\n").unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().starts_with("README.md:3: 'it is no'"), "{}", problems[0]);
}

#[test]
fn paragraphs_are_wrapped() {
    let text = "\
//! Runs the loops of a function in parallel: the number of threads, and which one runs a chunk, are known at run time only.
//!
//! - one: the first item of the list, which has more words than there are columns for on a line of it
//!   and goes on;
//! - two
//!
//! | a table | that is left as it is, although it has far more columns than the hundred that are allowed here |

fn f() {
    // SAFETY: the pointer comes from `Box::into_raw` in `new`, and this is the only place that frees it, after the last use.
    unsafe { g() };
    let x = 1; // A comment behind code stays where it is, even one that has more than a hundred columns in all.
    // let x = call(with, arguments, that, are, many, and, a, name, that, is, long, enough, to_be, more, than, that);
}
";
    let expected = "\
//! Runs the loops of a function in parallel: the number of threads, and which one runs a chunk, are
//! known at run time only.
//!
//! - one: the first item of the list, which has more words than there are columns for on a line of
//!   it and goes on;
//! - two
//!
//! | a table | that is left as it is, although it has far more columns than the hundred that are allowed here |

fn f() {
    // SAFETY: the pointer comes from `Box::into_raw` in `new`, and this is the only place that
    // frees it, after the last use.
    unsafe { g() };
    let x = 1; // A comment behind code stays where it is, even one that has more than a hundred columns in all.
    // let x = call(with, arguments, that, are, many, and, a, name, that, is, long, enough, to_be, more, than, that);
}
";
    assert_eq!(wrapped(text), expected);
}

#[test]
fn lines_begin_with_words_of_their_paragraph() {
    let ninety = "x".repeat(90);
    for (text, expected) in [
        // Neither list items nor headings are made, and code stays on one line.
        (format!("// {ninety}xxx two - three"), format!("// {ninety}xxx\n// two - three")),
        (format!("/// {ninety}xx in #3 is"), format!("/// {ninety}xx\n/// in #3 is")),
        (format!("/// {ninety} `a b c d`."), format!("/// {ninety}\n/// `a b c d`.")),
        (format!("/// {ninety} version 2. After"), format!("/// {ninety}\n/// version 2. After")),
        // A sentence that ends before the line is full ends there on purpose.
        (format!("// One.\n// {ninety} two three"), format!("// One.\n// {ninety} two\n// three")),
        (format!("/// One\n/// {ninety} two three"), format!("/// One {ninety}\n/// two three")),
        // Columns within code, and the names of files in it, are neither a table nor code.
        (format!("/// {ninety} `a  b` c"), format!("/// {ninety}\n/// `a  b` c")),
        (format!("// {ninety} (`a.rs`);\n// b"), format!("// {ninety}\n// (`a.rs`); b")),
        // What begins with a label is a paragraph.
        (format!("// one\n// NOTE: {ninety} two"), format!("// one\n// NOTE: {ninety}\n// two")),
        // Drawings, excerpts and directives are kept.
        (format!("// {ninety}  two three"), format!("// {ninety}  two three")),
        (format!("// ANCHOR: {ninety} two"), format!("// ANCHOR: {ninety} two")),
        (format!("//~ {ninety} two three"), format!("//~ {ninety} two three")),
        (format!("// text\n//     {ninety} two three"), format!("// text\n//     {ninety} two three")),
        (format!("let s = \"\n// {ninety} two three\";"), format!("let s = \"\n// {ninety} two three\";")),
    ] {
        assert_eq!(wrapped(&text), expected);
    }
    let markdown = format!("# {ninety} two three\n\n1. {ninety} two three\n");
    let expected = format!("# {ninety} two three\n\n1. {ninety} two\n   three\n");
    assert_eq!(wrap::file("a.md", &markdown).unwrap(), expected);
}

#[test]
fn paths_name_files_and_folders() {
    for (folders, expected) in [(&[][..], true), (&["a"], true), (&["a/"], true), (&["."], true), (&["a/b"], false)] {
        assert_eq!(is_below("a/bc.rs", folders), expected, "{folders:?}");
    }
}

#[test]
fn paths_without_files_are_found() {
    let files = ["a/b.rs".to_string()];
    for (paths, expected) in [(&[][..], None), (&["a", "a/b.rs", "."], None), (&["a", "a/b.r"], Some("a/b.r"))] {
        assert_eq!(unknown(&files, paths), expected);
    }
}
