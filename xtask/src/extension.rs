//! `cargo xtask extension`: the tests of the extension module in four environments: beside tvm_ffi,
//! with PyTorch and JAX, with NumPy but no tvm_ffi, and with the standard library alone. `cargo
//! xtask test` runs them, too.

use crate::Result;
use crate::artifacts;
use crate::environment::Environment;
use crate::pytest;
use crate::python;
use crate::runner::Report;
use crate::torch;
use crate::totals::Totals;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the tests, from the root.
pub(crate) const TESTS: &str = "tests/python_extension";

/// The tests with PyTorch and JAX.
const FRAMEWORKS: &str = "tests/python_extension/test_frameworks.py";

/// Files that make environments, or are about frameworks that have tvm_ffi's place.
const NOT_WITHOUT: [&str; 3] = ["test_frameworks.py", "test_interface.py", "test_wheel.py"];

/// Runs the tests in all environments.
pub(crate) fn run() -> Result {
    let environment = Environment::prepare()?;
    let libraries = artifacts::build_for_extension(&environment)?;
    let mut report = Report::default();
    let mut beside = environment.command(environment.python.interpreter());
    pytest::arguments(&mut beside).arg(TESTS);
    beside.envs(libraries.clone());
    let frameworks = torch::interpreter(&environment.workspace)
        .and_then(|torch| with_frameworks(&environment.workspace, &torch, &libraries));
    match &frameworks {
        Ok(_) => leave_frameworks_out(&mut beside),
        Err(error) => report.skip(&format!("{FRAMEWORKS}: {error}")),
    }
    report.add(&format!("pytest {TESTS}"), &mut beside, Totals::of_pytest)?;
    let without = without_packages(&environment.workspace, &libraries)?;
    for (name, mut command) in frameworks.into_iter().chain(without) {
        report.add(&name, &mut command, Totals::of_pytest)?;
    }
    report.close()
}

/// The command, with its name, that runs the tests with PyTorch and JAX, in an environment over an
/// interpreter that has PyTorch.
pub(crate) fn with_frameworks(
    workspace: &Workspace,
    torch: &Path,
    libraries: &[(&'static str, PathBuf)],
) -> Result<(String, Command)> {
    let mut command = workspace.command(python::with_frameworks(workspace, torch)?);
    pytest::arguments(&mut command).arg(FRAMEWORKS).envs(libraries.iter().cloned());
    Ok((format!("pytest {FRAMEWORKS}"), command))
}

/// Leaves the tests with PyTorch and JAX out of a run beside that of [`with_frameworks`].
pub(crate) fn leave_frameworks_out(pytest: &mut Command) {
    pytest.arg(format!("--ignore={FRAMEWORKS}"));
}

/// The commands, with their names, that run the tests without tvm_ffi, and without NumPy as well.
/// Each leaves out the tests that need what is not there.
pub(crate) fn without_packages(
    workspace: &Workspace,
    libraries: &[(&'static str, PathBuf)],
) -> Result<Vec<(String, Command)>> {
    let environments = [
        ("without tvm_ffi", python::without_tvm_ffi(workspace)?, "tvm_ffi torch"),
        ("with the standard library alone", python::without_packages(workspace)?, "tvm_ffi torch numpy"),
    ];
    Ok(environments
        .into_iter()
        .map(|(name, interpreter, lacks)| {
            let command = without(workspace, &interpreter, lacks, libraries);
            (format!("pytest {TESTS} {name}"), command)
        })
        .collect())
}

/// The tests that need none of the packages that an environment lacks.
fn without(workspace: &Workspace, interpreter: &Path, lacks: &str, libraries: &[(&'static str, PathBuf)]) -> Command {
    let mut command = workspace.command(interpreter);
    // Other versions of Python have no packages: they run once, beside tvm_ffi.
    pytest::arguments(&mut command).args(["-m", "not other_pythons", TESTS]);
    command.args(NOT_WITHOUT.iter().map(|file| format!("--ignore={TESTS}/{file}")));
    command.env("EXTMOD_WITHOUT", lacks).envs(libraries.iter().cloned());
    command
}
