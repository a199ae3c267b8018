//! `cargo xtask onnx --scoreboard`: the tests of ONNX's backend scoreboard through
//! `kernpack_onnx.backend`, and its report. `cargo xtask onnx` runs some of them.

use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The environment with ONNX, the test runner, and the packages that load the compiler.
const BOARD: Recipe = Recipe {
    folder: "venv-scoreboard",
    list: "xtask/requirements-scoreboard.txt",
    packages: include_str!("../requirements-scoreboard.txt"),
};

/// The folder of the tests: those of ONNX, those of the backend's own errors, the names of the
/// tests that always run, and the differences to the results of the runner of node tests.
const FOLDER: &str = "tests/onnx/scoreboard";
const BACKEND: &str = "examples/python-compiler/python";
const SOME: &str = "tests/onnx/scoreboard/some.txt";
const DIFFERENCES: &str = "tests/onnx/scoreboard/differences.txt";

/// The folder of the report, below `target/`.
const RESULTS: &str = "onnx-scoreboard";

/// Runs all tests, and writes the report.
///
/// # Errors
/// A test whose result differs from that of the runner of node tests, unless the difference is
/// known.
pub(crate) fn run(workspace: &Workspace, passed: &str) -> Result {
    let results = workspace.folder(RESULTS)?;
    let mut command = tests(workspace)?;
    command.args(["test_backend.py", "-k", "not _cuda"]);
    // ONNX writes inputs of its large networks to a folder, by default one in the user's home.
    command.env("RESULTS_DIR", &results).env("ONNX_MODELS", results.join("models"));
    // The report contains the failed tests.
    let report = results.join("report.json");
    let _ = fs::remove_file(&report);
    let finished = step::watch("tests of ONNX's scoreboard", &mut command, Show::Warnings)?;
    let text = fs::read_to_string(&report)
        .map_err(|error| format!("no report was written, {}: {error}:\n{}", report.display(), finished.output))?;
    let summary = finished.output.lines().rev().find(|line| line.starts_with("scoreboard:")).unwrap_or_default();
    println!("{summary}: {}", report.display());
    let differences = fs::read_to_string(workspace.root().join(DIFFERENCES))?;
    compare(&outcomes(&serde_json::from_str(&text)?), passed, &differences)
}

/// Runs some of the tests, and those of the errors of the backend.
pub(crate) fn run_some(workspace: &Workspace) -> Result {
    let mut command = tests(workspace)?;
    command.args(["test_backend.py", "test_interface.py", "-k", "not _cuda"]);
    command.env("KERNPACK_ONNX_TESTS", workspace.root().join(SOME));
    step::run("some tests of ONNX's scoreboard", &mut command, Show::Warnings).map(drop)
}

/// The command that runs tests, with the compiler as it is built for the tests of the workspace.
fn tests(workspace: &Workspace) -> Result<Command> {
    let interpreter = python::environment(workspace, &BOARD)?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--workspace", "--lib", "--test", "new"]);
    step::run("build examples/python-compiler", &mut cargo, Show::Warnings)?;
    let mut command = workspace.command(&interpreter);
    command
        .current_dir(workspace.root().join(FOLDER))
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore"])
        .env("PYTHON_COMPILER_LIBRARY", shared_library(&workspace.cargo_target().join("debug"), "python_compiler"))
        .env("PYTHONPATH", workspace.root().join(BACKEND))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("KERNPACK_VERSION", env!("CARGO_PKG_VERSION"));
    Ok(command)
}

/// The tests of a report, by their names in `passed.txt`, with true for those that passed.
fn outcomes(report: &Value) -> BTreeMap<String, bool> {
    let names = |kind: &str| report[kind].as_array().cloned().unwrap_or_default();
    let named = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        let name = name.rsplit_once("::").map_or(name, |(_, name)| name);
        name.strip_suffix("_cpu").unwrap_or(name).to_owned()
    };
    let kinds = [("passed", true), ("failed", false), ("skipped", false)];
    kinds.iter().flat_map(|(kind, passed)| names(kind).into_iter().map(move |name| (named(&name), *passed))).collect()
}

/// Compares the outcomes with those of the runner of node tests. `differences` has a name and a
/// reason in each line.
fn compare(outcomes: &BTreeMap<String, bool>, passed: &str, differences: &str) -> Result {
    let passed: BTreeSet<&str> = passed.lines().collect();
    let known: BTreeSet<&str> = differences
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mut problems = Vec::new();
    for (name, here) in outcomes {
        let differs = *here != passed.contains(name.as_str());
        if differs != known.contains(name.as_str()) {
            let how = if *here { "passes through the backend" } else { "fails through the backend" };
            let than = if differs { "is otherwise in tests/onnx/passed.txt" } else { "is in" };
            let file =
                if differs { format!("and not in {DIFFERENCES}") } else { format!("{DIFFERENCES} all the same") };
            problems.push(format!("{name} {how}, {than} {file}"));
        }
    }
    let gone = passed.iter().chain(&known).filter(|name| !outcomes.contains_key(**name));
    problems.extend(gone.map(|name| format!("{name} was not run")));
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("onnx --scoreboard: {} differences:\n{}", problems.len(), problems.join("\n")).into())
}

#[cfg(test)]
mod tests_of_reports {
    use super::*;

    #[test]
    fn a_report_is_compared_with_the_list() {
        let report = r#"{"date": "x", "passed": ["A::test_a_cpu", "A::test_b_cpu"], "failed": ["B::test_c_cpu"], "skipped": []}"#;
        let outcomes = outcomes(&serde_json::from_str(report).unwrap());
        assert_eq!(
            outcomes.iter().map(|(name, passed)| (name.as_str(), *passed)).collect::<Vec<_>>(),
            [("test_a", true), ("test_b", true), ("test_c", false)]
        );
        assert!(compare(&outcomes, "test_a\ntest_b\n", "").is_ok());
        assert!(compare(&outcomes, "test_a\n", "# why\ntest_b a reason\n").is_ok());
        let message = |passed, known| compare(&outcomes, passed, known).unwrap_err().to_string();
        assert!(
            message("test_a\n", "")
                .contains("test_b passes through the backend, is otherwise in tests/onnx/passed.txt and not in")
        );
        assert!(message("test_a\ntest_b\ntest_c\n", "").contains("test_c fails through the backend"));
        assert!(
            message("test_a\ntest_b\n", "test_a x\n").contains(
                "test_a passes through the backend, is in tests/onnx/scoreboard/differences.txt all the same"
            )
        );
        assert!(message("test_a\ntest_b\ntest_d\n", "").contains("test_d was not run"));
    }
}
