//! `cargo xtask test`: runs every test runner of the project, and sums up their results.

use crate::Result;
use crate::again::Again;
use crate::apache_tvm;
use crate::artifacts;
use crate::beside::Beside;
use crate::cross_compiler;
use crate::debian;
use crate::environment::{Environment, on_ci};
use crate::extension;
use crate::gpu;
use crate::node::Node;
use crate::proved::{self, Choice, Suite};
use crate::pytest;
use crate::step::{self, Finished, Show};
use crate::times;
use crate::torch;
use crate::totals::Totals;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Folders with Python tests, from the root.
const PYTHON_TESTS: &[&str] = &[
    "tests/python",
    extension::TESTS,
    "examples/dspkit/python",
    "examples/imagekit/python",
    "examples/extension/python",
    "examples/nnvm/python",
    "examples/python-compiler/python",
    "examples/python-rpc/python",
    "examples/tensor-kernels/python",
    gpu::PYTHON_TESTS,
];

/// Tests of the workspace that are separate suites, because each takes minutes.
const DEEP: [Deep; 3] = [
    Deep { suite: &proved::PROFILES, program: "profiles", tests: "everything_survives_every_profile_and_linker" },
    Deep { suite: &proved::AARCH64, program: "export", tests: "on_aarch64::" },
    Deep { suite: &proved::AARCH64, program: "scratch", tests: "other_machine::" },
];

/// Tests of one program that are part of such a suite.
struct Deep {
    suite: &'static Suite,
    program: &'static str,
    /// A part of the names of these tests, and of no other test.
    tests: &'static str,
}

/// Prepares everything, then runs every test.
pub(crate) fn run(choice: Choice) -> Result {
    let start = Instant::now();
    let outcome = run_in(&Environment::prepare()?, choice);
    times::print("cargo xtask test", start.elapsed());
    // The totals must be the last line.
    outcome?.close()
}

/// Runs every runner, regardless of the others' results. If `choice` says so, suites that have
/// passed with the same inputs are skipped.
pub(crate) fn run_in(environment: &Environment, choice: Choice) -> Result<Report> {
    let mut report = Report::default();
    let libraries = match artifacts::build_for_tests(environment) {
        Ok(libraries) => libraries,
        Err(error) => {
            report.fail(error.to_string());
            return Ok(report);
        }
    };

    debian::install_for_tests(&environment.workspace);
    let for_aarch64 = cross_compiler::prepare(environment);
    // This comes first: tests of the workspace read libraries that it exports.
    let apache_tvm = apache_tvm::interpreter(&environment.workspace);
    let pinned = apache_tvm.is_ok().then(|| apache_tvm::pinned_tvm_ffi(&environment.workspace));
    if let Some(Err(error)) = &pinned {
        report.skip(&format!("our libraries under the apache-tvm-ffi that apache-tvm pins: {error}"));
    }
    let cargo_test = |arguments: &[&str]| {
        let mut cargo = environment.cargo("test");
        cargo.args(["--workspace", "--no-fail-fast"]).args(arguments).envs(libraries.clone()).envs(for_aarch64.clone());
        if let Ok(interpreter) = &apache_tvm {
            cargo.env("KERNPACK_APACHE_TVM", interpreter);
        }
        if let Some(Ok(packages)) = &pinned {
            cargo.env("KERNPACK_TVM_FFI_PINNED", packages);
        }
        cargo
    };
    // Compiler errors are reported again by the tests.
    step::watch("build the tests of the workspace", &mut cargo_test(&["--no-run"]), Show::Lines)?;

    let others = others(environment, &libraries, &for_aarch64, apache_tvm.as_deref().ok(), &mut report);
    if let Err(error) = &apache_tvm {
        report.skip(&format!("examples/extension under apache-tvm: {error}"));
    }
    let (readers, commands): (Vec<_>, Vec<_>) =
        others.into_iter().map(|(name, command, read)| (read, (name, command))).unzip();
    let beside = Beside::start(commands);
    let suites = [&proved::PROFILES, &proved::AARCH64];
    let dues: Vec<_> =
        suites.into_iter().filter_map(|suite| Some((suite, suite.due(&environment.workspace, choice)?))).collect();
    let deep_commands = dues.iter().flat_map(|(suite, _)| suite_commands(suite, cargo_test));
    let deep = Beside::start([book_blocks(environment)?].into_iter().chain(deep_commands).collect());

    let skips = DEEP.iter().flat_map(|deep| ["--skip", deep.tests]);
    let arguments: Vec<&str> = ["--"].into_iter().chain(skips).collect();
    report.add_workspace("cargo test --workspace", &mut cargo_test(&arguments), cargo_test)?;
    for (done, read) in beside.finish().into_iter().zip(readers) {
        report.count(&done.name, &done.output, done.outcome.is_ok(), read);
    }
    let mut ended = deep.finish().into_iter();
    for done in ended.by_ref().take(1) {
        report.count(&done.name, &done.output, done.outcome.is_ok(), Totals::of_book);
    }
    for (suite, due) in dues {
        let before = report.totals;
        for done in ended.by_ref().take(suite_commands(suite, cargo_test).len()) {
            report.count(&done.name, &done.output, done.outcome.is_ok(), Totals::of_cargo);
        }
        // A suite with skipped tests has not passed.
        let after = report.totals;
        if (after.failed, after.skipped) == (before.failed, before.skipped) && after.passed > before.passed {
            due.passed()?;
        }
    }
    Ok(report)
}

/// The command that checks the blocks of all pages, with its name.
fn book_blocks(environment: &Environment) -> Result<(String, Command)> {
    let mut command = environment.workspace.command(std::env::current_exe()?);
    command.args(["book", "blocks"]);
    Ok(("cargo xtask book blocks".to_string(), command))
}

/// The commands that run a suite of [`DEEP`], with their names.
fn suite_commands(suite: &Suite, cargo_test: impl Fn(&[&str]) -> Command) -> Vec<(String, Command)> {
    let own = DEEP.iter().filter(|deep| deep.suite.name == suite.name);
    own.map(|Deep { program, tests, .. }| {
        let name = format!("{}: cargo test --workspace --test {program} {tests}", suite.name);
        (name, cargo_test(&["--test", program, "--", tests]))
    })
    .collect()
}

/// A function that reads the totals from the output of a runner.
type Read = fn(&str) -> Totals;

/// The commands that run beside the tests of the workspace, one after the other: programs in other
/// languages, and a crate outside the workspace, which use our libraries.
fn others(
    environment: &Environment,
    libraries: &[(&'static str, PathBuf)],
    for_aarch64: &cross_compiler::Variables,
    apache_tvm: Option<&Path>,
    report: &mut Report,
) -> Vec<(String, Command, Read)> {
    let mut commands: Vec<(String, Command, Read)> = Vec::new();
    // The build of the workspace's tests. The wheel's tests build with it, in the same folder.
    let target = environment.workspace.cargo_target();
    let cargo_kernpack = target.join("debug").join(format!("cargo-kernpack{}", std::env::consts::EXE_SUFFIX));
    let torch = torch::interpreter(&environment.workspace);
    if let Err(error) = &torch {
        report.skip(&format!("the wheel of imagekit, and the extension module, with PyTorch: {error}"));
    }
    let frameworks = torch.as_ref().ok().and_then(|torch| {
        let run = extension::with_frameworks(&environment.workspace, torch, libraries);
        run.map_err(|error| report.fail(format!("the extension module with PyTorch and JAX: {error}"))).ok()
    });
    for folder in PYTHON_TESTS {
        let mut pytest = environment.command(environment.python.interpreter());
        pytest::arguments(&mut pytest).arg(folder);
        pytest.envs(libraries.iter().cloned()).envs(for_aarch64.clone());
        pytest.env("CARGO_KERNPACK", &cargo_kernpack).env("CARGO_TARGET_DIR", target);
        if let Ok(torch) = &torch {
            pytest.env("KERNPACK_TORCH_PYTHON", torch);
        }
        if let Some(interpreter) = apache_tvm {
            pytest.env("KERNPACK_APACHE_TVM", interpreter);
        }
        if *folder == extension::TESTS && frameworks.is_some() {
            extension::leave_frameworks_out(&mut pytest);
        }
        commands.push((format!("pytest {folder}"), pytest, Totals::of_pytest));
    }
    commands.extend(frameworks.map(|(name, command)| (name, command, Totals::of_pytest as Read)));
    match extension::without_packages(&environment.workspace, libraries) {
        Ok(runs) => commands.extend(runs.into_iter().map(|(name, command)| (name, command, Totals::of_pytest as Read))),
        Err(error) => report.fail(format!("tests/python_extension without packages: {error}")),
    }
    if let Some(interpreter) = apache_tvm {
        let mut script = environment.command(interpreter);
        script.args(["examples/extension/python/run.py", "--apache-tvm"]);
        script.envs(libraries.iter().cloned()).env("PYTHONDONTWRITEBYTECODE", "1");
        commands.push(("examples/extension under apache-tvm".to_string(), script, Totals::of_pytest));
    }
    match environment.magika() {
        Ok(interpreter) => {
            let folder = "examples/filetype/python";
            let mut pytest = environment.command(interpreter);
            pytest::arguments(&mut pytest).arg(folder).envs(libraries.iter().cloned());
            pytest.env("CARGO_KERNPACK", &cargo_kernpack).env("CARGO_TARGET_DIR", target);
            commands.push((format!("pytest {folder}"), pytest, Totals::of_pytest));
        }
        Err(error) => report.skip(&format!("examples/filetype beside the package magika: {error}")),
    }
    match Node::prepare(environment) {
        Ok(node) => {
            let mut test = node.test(environment);
            test.envs(libraries.iter().cloned());
            commands.push(("node --test examples/node-host".to_string(), test, Totals::of_tap));
        }
        Err(error) => report.fail(format!("examples/node-host: {error}")),
    }
    for subcommand in ["build", "test"] {
        let command = downstream(environment, subcommand);
        commands.push((format!("cargo {subcommand} in tests/downstream"), command, Totals::of_cargo));
    }
    commands
}

/// cargo for the crate outside the workspace. It starts in another folder, so that our
/// `.cargo/config.toml` does not apply.
fn downstream(environment: &Environment, subcommand: &str) -> Command {
    let mut cargo = environment.cargo(subcommand);
    let manifest = environment.workspace.root().join("tests/downstream/Cargo.toml");
    cargo.current_dir(std::env::temp_dir()).arg("--manifest-path").arg(manifest);
    cargo
}

/// The results of the runners so far.
#[derive(Default)]
pub(crate) struct Report {
    totals: Totals,
    failures: Vec<String>,
    /// Tests that failed and then passed.
    again: Vec<String>,
}

impl Report {
    /// Runs one runner and adds its results.
    pub(crate) fn add(&mut self, name: &str, command: &mut Command, read: Read) -> Result {
        let Finished { output, success, .. } = step::watch(name, command, Show::Lines)?;
        self.count(name, &output, success, read);
        Ok(())
    }

    /// Runs the tests of the workspace and adds their results. Tests that ran again count with
    /// their second outcome.
    fn add_workspace(&mut self, name: &str, command: &mut Command, cargo_test: impl Fn(&[&str]) -> Command) -> Result {
        let Finished { output, success, .. } = step::watch(name, command, Show::Lines)?;
        let run = |arguments: &[&str]| -> Result<Totals> {
            let name = format!("once more: cargo test {}", arguments.join(" "));
            Ok(Totals::of_cargo(&step::watch(&name, &mut cargo_test(arguments), Show::Lines)?.output))
        };
        match Again::of_cargo(&output) {
            Some(again) if again.passes(run)? => {
                self.refuse_skips(name, &output);
                let Totals { passed, failed, skipped } = reported(&output, Totals::of_cargo);
                self.totals += Totals { passed: passed + failed, failed: 0, skipped };
                self.again.extend(again.tests.into_iter().map(|test| format!("{name}: {test}")));
            }
            _ => self.count(name, &output, success, Totals::of_cargo),
        }
        Ok(())
    }

    /// Adds the results of a runner. A runner that fails without naming a failed test counts as one
    /// failure.
    fn count(&mut self, name: &str, output: &str, success: bool, read: Read) {
        let totals = reported(output, read);
        if !success && totals.failed == 0 {
            self.fail(format!("{name}: ended before its tests were done"));
        }
        self.failures.extend(failed_tests(output).map(|test| format!("{name}: {test}")));
        self.totals += totals;
        self.refuse_skips(name, output);
    }

    /// Notes a failure for each skipped test that has to run on CI.
    fn refuse_skips(&mut self, name: &str, output: &str) {
        if !on_ci() {
            return;
        }
        for line in pytest::wrongly_skipped(output).chain(wrongly_skipped_by_rust(output)) {
            self.fail(format!("{name}: cannot be skipped on CI: {line}"));
        }
    }

    /// Notes a failure that no runner reports.
    fn fail(&mut self, what: String) {
        self.totals.failed += 1;
        self.failures.push(what);
    }

    /// Notes something that cannot run on this machine. On CI, where everything can run, it is a
    /// failure.
    pub(crate) fn skip(&mut self, what: &str) {
        if on_ci() {
            return self.fail(what.to_string());
        }
        println!("skipped: {what}");
        self.totals.skipped += 1;
    }

    /// Prints the failures and, as the last line, the totals.
    pub(crate) fn close(self) -> Result {
        for test in &self.again {
            println!("failed, and passed when it ran again (mend it: it depends on what runs beside it): {test}");
        }
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

/// The totals that a runner reports, where tests that found out that they cannot run here count as
/// skipped.
fn reported(output: &str, read: Read) -> Totals {
    let mut totals = read(output);
    let skipped = skipped_by_rust(output);
    totals.passed = totals.passed.saturating_sub(skipped);
    totals.skipped += skipped;
    totals
}

/// The number of tests that skipped themselves. Rust's harness does not support this; our tests
/// print `skipped: TEST: WHY` (`kernpack-skip`) and return.
fn skipped_by_rust(output: &str) -> u64 {
    output.lines().filter(|line| line.starts_with("skipped: ")).count() as u64
}

/// The beginnings of the reasons for which our Rust tests and blocks of pages may be skipped on CI.
const ACCEPTED: [&str; 7] = [
    "no GPU was found",
    // Parts of tests on a machine with one GPU.
    "no second GPU was found",
    "this machine has a CUDA driver",
    // The repository does not contain it.
    "there is no ../shared/data/tvm-ir",
    // The build of Apache TVM on PyPI has no compilers for these GPUs.
    "Apache TVM: vulkan.so: ",
    "Apache TVM: rocm.so: ",
    // `cargo xtask ray` installs it.
    "there is no ray on PATH",
];

/// The lines about skipped Rust tests and blocks of pages that have no accepted reason.
fn wrongly_skipped_by_rust(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter(|line| {
        line.strip_prefix("skipped: ").is_some_and(|reason| {
            // After the name of a test, if the line has one.
            let after = reason.split_once(": ").map_or("", |(_, after)| after);
            !ACCEPTED.iter().any(|accepted| reason.starts_with(accepted) || after.starts_with(accepted))
        })
    })
}

/// The names of failed tests, from the output of Rust's harness, pytest and Node's test runner.
pub(crate) fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
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
            (
                "good",
                "echo 'test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured'; echo 'skipped: no GPU was found' >&2",
            ),
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
    fn a_test_that_fails_once_is_named_and_one_that_fails_twice_is_a_failure() {
        let failed = "echo 'test a ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; \
                      echo '    `-p x --test y`'; exit 101";
        for (second, totals, failures) in [
            ("echo 'test result: ok. 1 passed; 0 failed; 0 ignored'", "2 passed, 0 failed, 0 skipped", 0),
            (failed, "1 passed, 1 failed, 0 skipped", 1),
        ] {
            let mut report = Report::default();
            report.add_workspace("tests", &mut shell(failed), |_| shell(second)).unwrap();
            assert_eq!(report.totals.to_string(), totals);
            assert_eq!((report.failures.len(), report.again.len()), (failures, 1 - failures));
        }
    }

    #[test]
    fn only_some_skipped_tests_of_rust_are_accepted() {
        let output = "skipped: a: no GPU was found, so nothing was launched (x)\ntest a ... ok\n\
                      skipped: b::c: Apache TVM: rocm.so: x\nskipped: docs/cluster.md:7: there is no ray on PATH\n\
                      skipped: no nvcc; set CUDA_HOME\nskipped: b::c: Apache TVM: cuda.so: no nvcc";
        let lines: Vec<&str> = wrongly_skipped_by_rust(output).collect();
        assert_eq!(lines, ["skipped: no nvcc; set CUDA_HOME", "skipped: b::c: Apache TVM: cuda.so: no nvcc"]);
    }

    #[test]
    fn names_of_failed_tests() {
        let output = "test a ... ok\ntest b::c ... FAILED\nFAILED tests/python/test_x.py::test_y - assert 1 == 2\nERROR test_z.py\nfailed";
        let names: Vec<&str> = failed_tests(output).collect();
        assert_eq!(names, ["b::c", "tests/python/test_x.py::test_y - assert 1 == 2", "test_z.py"]);
    }
}
