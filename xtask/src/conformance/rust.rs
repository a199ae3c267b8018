//! The tests of the reference archive's Rust crate.

use super::Run;
use super::outcome::{Outcome, Outcomes};
use super::sdist::Sdist;
use super::subject::Subject;
use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time limit of all tests. They take a few seconds; compiling them is a separate step.
const LIMIT: Duration = Duration::from_secs(1800);

/// The time limit of a single test.
const LIMIT_FOR_ONE: Duration = Duration::from_secs(120);

/// Builds the tests, runs them as `cargo test` does, and then runs those that a dying process did
/// not reach, one by one.
pub(crate) fn run(workspace: &Workspace, sdist: &Sdist, subject: &Subject, run: &Run) -> Result<Outcomes> {
    let folder = sdist.folder().join("rust");
    // The archive has no lock file; ours pins the dependencies.
    let lock = workspace.root().join("tests/conformance/rust/Cargo.lock");
    fs::copy(&lock, folder.join("Cargo.lock"))
        .map_err(|error| format!("cannot copy {} into the unpacked archive: {error}", lock.display()))?;
    let cargo = |arguments: &[&str]| -> Result<Command> {
        let mut cargo = subject.describe(workspace.cargo("test"))?;
        cargo.args(["--workspace", "--no-fail-fast"]).args(arguments).current_dir(&folder);
        cargo.env("LD_LIBRARY_PATH", &subject.library_folder).env("RUST_BACKTRACE", "0");
        cargo.envs(run.variables.iter().map(|(name, value)| (name, value)));
        Ok(cargo)
    };
    let built = step::run("build the tests of rust/", &mut cargo(&["--no-run"])?, Show::Warnings)?;
    let programs: Vec<PathBuf> = built.lines().filter_map(executable).map(|program| folder.join(program)).collect();
    subject.check_programs(workspace, &programs)?;

    let mut arguments: Vec<&str> = run.filter.iter().map(String::as_str).collect();
    if !run.rest.is_empty() {
        arguments.push("--");
        arguments.extend(run.rest.iter().map(String::as_str));
    }
    // cargo prints the name of each program on standard error, the programs print on standard
    // output: one pipe keeps their order.
    let mut merged = merge(&cargo(&arguments)?);
    let output = step::watch_within(LIMIT, "cargo test in rust/", &mut merged, Show::Warnings)?.output;
    let mut outcomes = Outcomes::default();
    for section in sections(&output) {
        section.note(&mut outcomes);
        if let Some(program) = section.program.as_ref().filter(|_| !section.is_complete()) {
            rest_one_by_one(workspace, subject, &folder, &section, program, run, &mut outcomes)?;
        }
    }
    Ok(outcomes)
}

/// Runs each test of a program that has no outcome yet in a process of its own.
fn rest_one_by_one(
    workspace: &Workspace,
    subject: &Subject,
    folder: &Path,
    section: &Section,
    program: &Path,
    run: &Run,
    outcomes: &mut Outcomes,
) -> Result {
    let command = |arguments: &[&str]| -> Result<Command> {
        let mut command = subject.command(workspace, &folder.join(program))?;
        command.args(arguments).env("LD_LIBRARY_PATH", &subject.library_folder).env("RUST_BACKTRACE", "0");
        // cargo starts a package's tests in the package's folder.
        command.current_dir(folder.join("tvm-ffi"));
        Ok(command)
    };
    let list = command(&["--list", "--format", "terse"])?.output()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    // A program may also have reached its end, with a line of its output mixed with another.
    let mut explained = section.total().is_some() || section.lines.iter().any(|line| line.ends_with(" ... FAILED"));
    for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let id = section.id(name);
        if outcomes.get(&id).is_some() || run.filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let mut alone = command(&["--exact", name, "--test-threads=1"])?;
        let finished = step::watch_within(LIMIT_FOR_ONE, &format!("{id} alone"), &mut alone, Show::Warnings)?;
        let failed = finished.output.contains("test result: FAILED");
        let outcome = match (finished.success, failed) {
            (true, _) if finished.output.contains(" 1 ignored;") => Outcome::Skipped,
            (true, _) => Outcome::Passed,
            (false, true) => Outcome::Failed,
            (false, false) => Outcome::Crashed,
        };
        let detail = if finished.success { String::new() } else { finished.status };
        explained |= !finished.success;
        outcomes.note(id, outcome, detail);
    }
    if !explained {
        outcomes.note(section.id("(all together)"), Outcome::Crashed, "the process died, but each test alone passes");
    }
    Ok(())
}

/// The same command with standard error redirected to standard output.
fn merge(command: &Command) -> Command {
    let mut merged = Command::new("sh");
    merged.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        merged.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => merged.env(name, value),
            None => merged.env_remove(name),
        };
    }
    merged
}

/// The output of one test program of cargo.
#[derive(Debug, Default, PartialEq, Eq)]
struct Section<'a> {
    /// The name that cargo prints, such as `tests/test_any.rs`.
    name: String,
    /// The program, unless it is documentation.
    program: Option<PathBuf>,
    lines: Vec<&'a str>,
}

impl Section<'_> {
    fn id(&self, test: &str) -> String {
        format!("{}::{test}", self.name)
    }

    /// Returns whether the program ran to its end and each of its tests is in its output.
    fn is_complete(&self) -> bool {
        let mut outcomes = Outcomes::default();
        self.note(&mut outcomes);
        self.total() == Some(outcomes.iter().count())
    }

    /// The number of tests, if the program reached its end.
    fn total(&self) -> Option<usize> {
        self.lines.iter().find_map(|line| closing(line))
    }

    fn note(&self, outcomes: &mut Outcomes) {
        for line in &self.lines {
            let Some((test, word)) = line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")) else {
                continue;
            };
            // After the name of a documentation test, the line may say that it is only compiled, or
            // must not compile.
            let outcome = match word.split(',').next() {
                Some("ok") => Outcome::Passed,
                Some("FAILED") => Outcome::Failed,
                Some("ignored") => Outcome::Skipped,
                _ => continue,
            };
            let detail = if outcome == Outcome::Failed { self.reason(test) } else { String::new() };
            outcomes.note(self.id(test), outcome, detail);
        }
    }

    /// The panic message of a failed test.
    fn reason(&self, test: &str) -> String {
        let heading = format!("---- {test} stdout ----");
        let lines = self.lines.iter().skip_while(|line| **line != heading).skip(1);
        let own = lines.take_while(|line| **line != "failures:" && !line.starts_with("---- "));
        let words: Vec<&str> = own.flat_map(|line| line.split_whitespace()).collect();
        words.join(" ")
    }
}

/// The sections of the output of cargo and the programs, in their order.
fn sections(output: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in output.lines() {
        let trimmed = line.trim_start();
        if let Some((name, program)) = trimmed.strip_prefix("Running ").and_then(name_and_path) {
            sections.push(Section { name: name.to_string(), program: Some(program), lines: Vec::new() });
        } else if let Some(name) = trimmed.strip_prefix("Doc-tests ") {
            sections.push(Section { name: format!("documentation of {name}"), program: None, lines: Vec::new() });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

/// The program in a line of `cargo test --no-run`: `  Executable tests/test_any.rs (/path)`.
fn executable(line: &str) -> Option<PathBuf> {
    line.trim_start().strip_prefix("Executable ").and_then(name_and_path).map(|(_, program)| program)
}

/// Splits `unittests src/lib.rs (/path)`.
fn name_and_path(text: &str) -> Option<(&str, PathBuf)> {
    let (name, path) = text.strip_suffix(')')?.rsplit_once(" (")?;
    Some((name.strip_prefix("unittests ").unwrap_or(name), PathBuf::from(path)))
}

/// The number of tests in a closing line:
/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...`.
fn closing(line: &str) -> Option<usize> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let number = |word: &str| -> Option<usize> {
        counts.split("; ").find_map(|count| count.strip_suffix(word))?.trim().parse().ok()
    };
    Some(number("passed")? + number("failed")? + number("ignored")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling tvm-ffi v0.1.0
     Running unittests src/lib.rs (/t/debug/deps/tvm_ffi-1)

running 2 tests
test a::b ... ok
test a::c ... FAILED

failures:

---- a::c stdout ----

thread 'a::c' panicked at src/x.rs:1:2:
it is broken

failures:
    a::c

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/test_any.rs (/t/debug/deps/test_any-1)

running 3 tests
test one ... ok
error: test failed, to rerun pass `-p tvm-ffi --test test_any`

Caused by:
  process didn't exit successfully: `/t/debug/deps/test_any-1` (signal: 11, SIGSEGV: invalid memory reference)
     Running unittests src/lib.rs (/t/debug/deps/tvm_ffi_macros-1)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests tvm_ffi

running 2 tests
test tvm-ffi/src/x.rs - x (line 3) ... ignored
test tvm-ffi/src/x.rs - y (line 9) - compile ... ok

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn what_cargo_writes() {
        let sections = sections(OUTPUT);
        let mut outcomes = Outcomes::default();
        sections.iter().for_each(|section| section.note(&mut outcomes));
        let found: Vec<String> =
            outcomes.iter().map(|(id, ended)| format!("{id} {} {}", ended.outcome.word(), ended.detail)).collect();
        assert_eq!(
            found,
            [
                "documentation of tvm_ffi::tvm-ffi/src/x.rs - x (line 3) skipped ",
                "documentation of tvm_ffi::tvm-ffi/src/x.rs - y (line 9) - compile passed ",
                "src/lib.rs::a::b passed ",
                "src/lib.rs::a::c failed thread 'a::c' panicked at src/x.rs:1:2: it is broken",
                "tests/test_any.rs::one passed ",
            ]
        );
        let incomplete: Vec<&Path> = sections
            .iter()
            .filter(|section| !section.is_complete())
            .filter_map(|section| section.program.as_deref())
            .collect();
        assert_eq!(incomplete, [Path::new("/t/debug/deps/test_any-1")]);
    }

    #[test]
    fn programs() {
        let line = "  Executable tests/test_any.rs (/a b/test_any-1)";
        assert_eq!(executable(line), Some(PathBuf::from("/a b/test_any-1")));
        assert_eq!(executable("  Executable"), None);
        assert_eq!(closing("test result: ok. 5 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out"), Some(8));
        assert_eq!(closing("test one ... ok"), None);
    }
}
