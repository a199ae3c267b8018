//! `cargo xtask test`: every test runner of the project, and the sum of what they report.

use crate::Result;
use crate::apache_tvm;
use crate::artifacts;
use crate::book;
use crate::cross_compiler;
use crate::environment::Environment;
use crate::gpu;
use crate::node::Node;
use crate::step::{self, Finished, Show};
use crate::torch;
use crate::totals::Totals;
use std::process::Command;

/// Folders with Python tests, from the root.
const PYTHON_TESTS: [&str; 4] =
    ["tests/python", "examples/imagekit/python", "examples/extension/python", gpu::PYTHON_TESTS];

/// Prepares everything, then runs every test.
pub(crate) fn run() -> Result {
    run_in(&Environment::prepare()?)
}

/// Runs every runner, whatever the others said, and ends with the line of totals.
pub(crate) fn run_in(environment: &Environment) -> Result {
    let mut report = Report::default();
    let libraries = match artifacts::build_for_tests(environment) {
        Ok(libraries) => libraries,
        Err(error) => {
            report.fail(error.to_string());
            return report.close();
        }
    };

    let for_aarch64 = cross_compiler::prepare(environment);
    // First: tests of the workspace look into libraries that it exports.
    let apache_tvm = apache_tvm::interpreter(&environment.workspace);

    let mut workspace = environment.cargo("test");
    workspace.args(["--workspace", "--no-fail-fast"]).envs(libraries.clone()).envs(for_aarch64.clone());
    if let Ok(interpreter) = &apache_tvm {
        workspace.env("KERNPACK_APACHE_TVM", interpreter);
        match apache_tvm::pinned_tvm_ffi(&environment.workspace) {
            Ok(packages) => _ = workspace.env("KERNPACK_TVM_FFI_PINNED", packages),
            Err(error) => report.skip(&format!("our libraries under the apache-tvm-ffi that apache-tvm pins: {error}")),
        }
    }
    report.add("cargo test --workspace", &mut workspace, Totals::of_cargo)?;

    // What the workspace's tests have built. The wheel's tests build with it, in the same folder.
    let target = environment.workspace.cargo_target();
    let cargo_kernpack = target.join("debug").join(format!("cargo-kernpack{}", std::env::consts::EXE_SUFFIX));

    let torch = torch::interpreter(&environment.workspace);
    if let Err(error) = &torch {
        report.skip(&format!("the wheel of imagekit with PyTorch: {error}"));
    }

    for folder in PYTHON_TESTS {
        let mut pytest = environment.command(environment.python.interpreter());
        pytest.args(["-m", "pytest", "--color=no", "-p", "no:cacheprovider", "-ra", folder]);
        pytest.envs(libraries.clone()).envs(for_aarch64.clone()).env("PYTHONDONTWRITEBYTECODE", "1");
        pytest.env("CARGO_KERNPACK", &cargo_kernpack).env("CARGO_TARGET_DIR", target);
        if let Ok(torch) = &torch {
            pytest.env("KERNPACK_TORCH_PYTHON", torch);
        }
        report.add(&format!("pytest {folder}"), &mut pytest, Totals::of_pytest)?;
    }

    match apache_tvm {
        Ok(interpreter) => {
            let mut script = environment.command(&interpreter);
            script.args(["examples/extension/python/run.py", "--apache-tvm"]);
            script.envs(libraries.clone()).env("PYTHONDONTWRITEBYTECODE", "1");
            report.add("examples/extension under apache-tvm", &mut script, Totals::of_pytest)?;
        }
        Err(error) => report.skip(&format!("examples/extension under apache-tvm: {error}")),
    }

    match Node::prepare(environment) {
        Ok(node) => {
            let mut test = node.test(environment);
            report.add("node --test examples/node-host", test.envs(libraries.clone()), Totals::of_tap)?;
        }
        Err(error) => report.fail(format!("examples/node-host: {error}")),
    }

    report.add_book(book::check_blocks(environment, &[]));

    for subcommand in ["build", "test"] {
        let mut command = downstream(environment, subcommand);
        report.add(&format!("cargo {subcommand} in tests/downstream"), &mut command, Totals::of_cargo)?;
    }
    report.close()
}

/// cargo for the crate outside the workspace. It starts elsewhere, so that our `.cargo/config.toml` does not reach it either.
fn downstream(environment: &Environment, subcommand: &str) -> Command {
    let mut cargo = environment.cargo(subcommand);
    let manifest = environment.workspace.root().join("tests/downstream/Cargo.toml");
    cargo.current_dir(std::env::temp_dir()).arg("--manifest-path").arg(manifest);
    cargo
}

/// What the runners said so far.
#[derive(Default)]
pub(crate) struct Report {
    totals: Totals,
    failures: Vec<String>,
}

impl Report {
    /// Runs one runner and adds what it reports. One that fails without naming a failed test counts as one failure.
    pub(crate) fn add(&mut self, name: &str, command: &mut Command, read: fn(&str) -> Totals) -> Result {
        let Finished { output, success, .. } = step::watch(name, command, Show::Lines)?;
        let mut totals = read(&output);
        let skipped = skipped_by_rust(&output);
        totals.passed = totals.passed.saturating_sub(skipped);
        totals.skipped += skipped;
        if !success && totals.failed == 0 {
            self.fail(format!("{name}: ended before its tests were done"));
        }
        self.failures.extend(failed_tests(&output).map(|test| format!("{name}: {test}")));
        self.totals += totals;
        Ok(())
    }

    /// Adds what became of the blocks of the documentation's pages.
    fn add_book(&mut self, checked: Result<book::Checked>) {
        match checked {
            Ok(checked) => {
                self.totals.passed += checked.passed as u64;
                self.totals.skipped += checked.skipped.len() as u64;
                checked.failures.into_iter().for_each(|failure| self.fail(failure));
            }
            Err(error) => self.fail(format!("the blocks of the pages: {error}")),
        }
    }

    /// Notes one failure that no runner reports.
    fn fail(&mut self, what: String) {
        self.totals.failed += 1;
        self.failures.push(what);
    }

    /// Notes what cannot run on this machine; on CI everything can, so there it is a failure.
    fn skip(&mut self, what: &str) {
        if std::env::var_os("CI").is_some() {
            return self.fail(what.to_string());
        }
        println!("skipped: {what}");
        self.totals.skipped += 1;
    }

    /// Prints the failures and, alone on the last line, the totals.
    pub(crate) fn close(self) -> Result {
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{}", self.totals);
        match self.totals.failed {
            0 => Ok(()),
            1 => Err("1 test failed".into()),
            count => Err(format!("{count} tests failed").into()),
        }
    }
}

/// Rust's harness has no word for a test that finds out that it cannot run here. Ours write `skipped: <what and why>` and return.
fn skipped_by_rust(output: &str) -> u64 {
    output.lines().filter(|line| line.starts_with("skipped: ")).count() as u64
}

/// The names of failed tests, of Rust's harness, of pytest and of Node's.
fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| {
        let rust = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        let python = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let tap = line.strip_prefix("not ok ");
        rust.or(python).or(tap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shell;

    #[test]
    fn runners_are_summed() {
        let mut report = Report::default();
        for (name, script) in [
            ("good", "echo 'test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured'; echo 'skipped: no GPU' >&2"),
            ("bad", "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101"),
            ("broken", "echo 'error: could not compile'; exit 101"),
        ] {
            report.add(name, &mut shell(script), Totals::of_cargo).unwrap();
        }
        assert_eq!(report.totals.to_string(), "5 passed, 2 failed, 2 skipped");
        assert_eq!(report.failures, ["bad: a::b", "broken: ended before its tests were done"]);
        assert!(report.close().is_err());
    }

    #[test]
    fn names_of_failed_tests() {
        let output = "test a ... ok\ntest b::c ... FAILED\nFAILED tests/python/test_x.py::test_y - assert 1 == 2\nERROR test_z.py\nfailed";
        let names: Vec<&str> = failed_tests(output).collect();
        assert_eq!(names, ["b::c", "tests/python/test_x.py::test_y - assert 1 == 2", "test_z.py"]);
    }
}
