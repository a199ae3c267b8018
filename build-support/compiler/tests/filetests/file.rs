//! A file of tests: a head, and cases with a program, commands and expected lines.

use std::fs;
use std::path::{Path, PathBuf};

use super::command::Commands;

/// The start of a line with the title of a case.
pub(super) const TITLE: &str = "//# ";
/// The start of an expected line.
const EXPECTED: &str = "//>";
/// The start of a command.
pub(super) const COMMAND: &str = "//! ";

/// A part of a file: the lines before the first title, or a case with its title.
struct Part<'a> {
    /// The number of its first line, counted from 1.
    number: usize,
    /// The lines that people write.
    lines: Vec<&'a str>,
    /// The lines that the run writes, without their start.
    expected: String,
}

impl<'a> Part<'a> {
    fn of(text: &'a str) -> Vec<Self> {
        let mut parts = vec![Self { number: 1, lines: Vec::new(), expected: String::new() }];
        for (index, line) in text.lines().enumerate() {
            if line.starts_with(TITLE) {
                parts.push(Self { number: index + 1, lines: Vec::new(), expected: String::new() });
            }
            let part = parts.last_mut().expect("the head is a part");
            match line.strip_prefix(EXPECTED) {
                Some(expected) => {
                    part.expected.push_str(expected.strip_prefix(' ').unwrap_or(expected));
                    part.expected.push('\n');
                }
                None => part.lines.push(line),
            }
        }
        parts
    }

    /// The text of the part in a file.
    fn written(&self, found: &str) -> String {
        let mut text = self.lines.join("\n").trim_end().to_owned();
        for line in found.lines() {
            text.push_str(format!("\n{EXPECTED} {line}").trim_end());
        }
        text + "\n"
    }

    /// The program: its positions in messages count from its first line.
    fn program(&self) -> String {
        let is_other = |line: &str| line.starts_with(TITLE) || line.starts_with(COMMAND);
        let lines: Vec<&str> = self.lines.iter().copied().filter(|line| !is_other(line)).collect();
        lines.join("\n").trim_matches('\n').to_owned() + "\n"
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")
}

/// The names of all files but the description, in order: without `.kir`, which each should have.
pub(super) fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the folder exists").map(|entry| entry.expect("it is readable"));
    let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = files
        .filter(|name| name != "README.md" && !name.starts_with('.'))
        .map(|name| name.strip_suffix(".kir").map_or_else(|| name.clone(), str::to_owned))
        .collect();
    names.sort_unstable();
    names
}

/// Runs all cases of a file. With `UPDATE_EXPECT` in the environment, writes their expected lines;
/// conditions of commands still have to hold.
pub(super) fn check(name: &str) {
    let path = folder().join(format!("{name}.kir"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blesses = std::env::var_os("UPDATE_EXPECT").is_some();
    let parts = Part::of(&text);
    let (head, cases) = parts.split_first().expect("the head is a part");
    let (mut written, mut problems) = (vec![head.written("")], Vec::new());
    for case in cases {
        let commands = Commands::of(&head.lines, &case.lines);
        let outcome = commands.and_then(|commands| commands.run(&case.program()));
        let found = outcome.as_ref().unwrap_or(&case.expected);
        written.push(case.written(found));
        let title = format!("filetests/{name}.kir:{}: {}", case.number, &case.lines[0][TITLE.len()..]);
        match &outcome {
            Err(problem) => problems.push(format!("{title}: {problem}")),
            Ok(found) if *found != case.expected && !blesses => {
                problems.push(format!("{title}: expected\n{}found\n{found}", case.expected));
            }
            Ok(_) => {}
        }
    }
    let written = written.join("\n");
    if blesses && written != text {
        fs::write(&path, &written).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    } else if problems.is_empty() && written != text {
        problems.push(format!("filetests/{name}.kir: expected lines follow their program, and an empty line"));
    }
    let hint = "UPDATE_EXPECT=1 cargo test -p kernpack-compiler --test filetests writes the expected lines";
    assert!(problems.is_empty(), "{}\n{hint}", problems.join("\n\n"));
    assert!(!cases.is_empty(), "filetests/{name}.kir has no case");
}
