//! Runs all tests of a GoogleTest program, also after tests that kill the process, and reads their
//! outcomes.

use super::Run;
use super::outcome::{Outcome, Outcomes};
use super::subject::Subject;
use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time limit of the program. All tests take two seconds.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the program, and again for the tests after one that killed it. The names of tests contain
/// their source file, from `root`.
pub(crate) fn run(
    workspace: &Workspace,
    subject: &Subject,
    program: &Path,
    root: &Path,
    run: &Run,
) -> Result<Outcomes> {
    let command = |arguments: &[String]| -> Result<Command> {
        let mut command = subject.command(workspace, program)?;
        command.args(arguments).args(&run.rest).current_dir(root).env("LD_LIBRARY_PATH", &subject.library_folder);
        command.envs(run.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    };
    let list_file = subject.builds.join("gtest-list.xml");
    let list_arguments = ["--gtest_list_tests".to_string(), format!("--gtest_output=xml:{}", list_file.display())];
    let listed =
        step::watch_within(LIMIT, "list the tests of tests/cpp", &mut command(&list_arguments)?, Show::Warnings)?;
    if !listed.success {
        return Err(format!(
            "{} does not start with {}: {}",
            program.display(),
            subject.library().display(),
            listed.status
        )
        .into());
    }
    let list =
        fs::read_to_string(&list_file).map_err(|error| format!("cannot read {}: {error}", list_file.display()))?;
    let files = tests_of(&list, root);

    let wanted = run.filter.as_deref().map_or("*".to_string(), |filter| format!("*{filter}*"));
    let mut outcomes = Outcomes::default();
    let mut seen: BTreeMap<String, (Outcome, String)> = BTreeMap::new();
    loop {
        let done: Vec<&str> = seen.keys().map(|id| without_number(id)).collect();
        let filter = format!("--gtest_filter={wanted}-{}", done.join(":"));
        let name =
            if seen.is_empty() { "tests/cpp".to_string() } else { format!("tests/cpp, after {} tests", seen.len()) };
        let finished =
            step::watch_within(LIMIT, &name, &mut command(&[filter, "--gtest_color=no".to_string()])?, Show::Warnings)?;
        let progress = Progress::of(&finished.output);
        seen.extend(progress.ended);
        match progress.running {
            Some(test) => {
                let id = with_number(&test, |id| seen.contains_key(id));
                seen.insert(id, (Outcome::Crashed, finished.status));
            }
            None => {
                if !finished.success && !seen.values().any(|(outcome, _)| *outcome == Outcome::Failed) {
                    outcomes.note("tests/cpp::(its end)", Outcome::Crashed, finished.status);
                }
                break;
            }
        }
    }
    for (test, file) in &files {
        let is_disabled = test.contains("DISABLED_") && !seen.contains_key(test);
        if is_disabled && run.filter.as_ref().is_none_or(|filter| test.contains(filter.as_str())) {
            outcomes.note(format!("{file}::{test}"), Outcome::Skipped, "");
        }
    }
    for (test, (outcome, detail)) in seen {
        let file = files.get(&test).map_or("tests/cpp", String::as_str);
        outcomes.note(format!("{file}::{test}"), outcome, detail);
    }
    Ok(outcomes)
}

/// Each test and its source file, from the list that GoogleTest writes as XML.
fn tests_of(list: &str, root: &Path) -> BTreeMap<String, String> {
    let mut tests = BTreeMap::new();
    let mut suite = String::new();
    for tag in list.split('<') {
        if tag.starts_with("testsuite ") {
            suite = attribute(tag, "name").unwrap_or_default();
        } else if tag.starts_with("testcase ") {
            let (Some(name), Some(file)) = (attribute(tag, "name"), attribute(tag, "file")) else { continue };
            let file = Path::new(&file);
            let file = file.strip_prefix(root).unwrap_or(file).display().to_string();
            tests.insert(with_number(&format!("{suite}.{name}"), |id| tests.contains_key(id)), file);
        }
    }
    tests
}

/// A name that is not taken: of two tests with the same name, the second one is `name (2)`.
fn with_number(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    std::iter::once(name.to_string()).chain(numbered).find(|id| !is_taken(id)).unwrap_or_default()
}

/// The name without the number.
fn without_number(id: &str) -> &str {
    id.split_once(" (").map_or(id, |(name, _)| name)
}

/// The value of an attribute of an XML tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(value.to_string(), |text, (entity, character)| text.replace(entity, character)))
}

/// The progress of a run, read from its output.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    ended: BTreeMap<String, (Outcome, String)>,
    running: Option<String>,
}

impl Progress {
    fn of(output: &str) -> Self {
        let mut progress = Progress::default();
        let mut words: Vec<&str> = Vec::new();
        for line in output.lines() {
            if let Some(test) = line.strip_prefix("[ RUN      ] ") {
                progress.running = Some(test.to_string());
                words.clear();
                continue;
            }
            // If a test wrote no line break, its own text comes before the mark.
            let ended = [
                ("[       OK ] ", Outcome::Passed),
                ("[  FAILED  ] ", Outcome::Failed),
                ("[  SKIPPED ] ", Outcome::Skipped),
            ]
            .into_iter()
            .find_map(|(mark, outcome)| Some((outcome, line.split_once(mark)?.1)));
            match (&progress.running, ended) {
                (Some(test), Some((outcome, rest))) if is_named(rest, test) => {
                    let detail = if outcome == Outcome::Failed { words.join(" ") } else { String::new() };
                    let id = with_number(test, |id| progress.ended.contains_key(id));
                    progress.ended.insert(id, (outcome, detail));
                    progress.running = None;
                }
                _ => words.extend(line.split_whitespace()),
            }
        }
        progress
    }
}

/// Returns whether `Suite.name (0 ms)` or `Suite.name, where ...` is about this test.
fn is_named(text: &str, test: &str) -> bool {
    text.strip_prefix(test).is_some_and(|rest| rest.starts_with([' ', ',']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let list = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" name="AllTests">
  <testsuite name="Any" tests="2">
    <testcase name="Int" file="/s/tests/cpp/test_any.cc" line="25" />
    <testcase name="DISABLED_x" file="/s/tests/cpp/test_any.cc" line="26" />
  </testsuite>
  <testsuite name="T/0" type_param="std::vector&lt;int&gt;" tests="1">
    <testcase name="a" type_param="std::vector&lt;int&gt;" file="/s/tests/cpp/extra/test_t.cc" line="1" />
  </testsuite>
</testsuites>"#;
        let tests = tests_of(list, Path::new("/s"));
        let tests: Vec<String> = tests.iter().map(|(test, file)| format!("{file}::{test}")).collect();
        assert_eq!(
            tests,
            [
                "tests/cpp/test_any.cc::Any.DISABLED_x",
                "tests/cpp/test_any.cc::Any.Int",
                "tests/cpp/extra/test_t.cc::T/0.a"
            ]
        );
        assert_eq!(attribute("a x=\"&lt;&amp;lt;\"", "x").as_deref(), Some("<&lt;"));
    }

    #[test]
    fn progress() {
        let output = "[==========] Running 5 tests from 2 test suites.
[ RUN      ] A.one
[       OK ] A.one (0 ms)
[ RUN      ] A.two
/s/a.cc:3: Failure
  1 != 2
[  FAILED  ] A.two (0 ms)
[ RUN      ] A.onetwo
words[  SKIPPED ] A.onetwo (1 ms)
[ RUN      ] A.one
[       OK ] A.one (0 ms)
[----------] 3 tests from A (0 ms total)
[ RUN      ] B.three
[       OK ] B.threefold (0 ms)
!!!!!!! Segfault encountered !!!!!!!
";
        let progress = Progress::of(output);
        assert_eq!(
            progress.ended,
            BTreeMap::from([
                ("A.one".to_string(), (Outcome::Passed, String::new())),
                ("A.one (2)".to_string(), (Outcome::Passed, String::new())),
                ("A.two".to_string(), (Outcome::Failed, "/s/a.cc:3: Failure 1 != 2".to_string())),
                ("A.onetwo".to_string(), (Outcome::Skipped, String::new())),
            ])
        );
        assert_eq!(progress.running.as_deref(), Some("B.three"));
    }
}
