//! `cargo xtask valgrind`: the reference Rust suite and the C host under valgrind's memcheck, with
//! our libtvm_ffi.so; and our own tests of objects, each operation of which must free what it
//! allocates.
//!
//! An invalid access, a branch on uninitialized memory, or an unreachable block is a failure. Leaks
//! of the reference crate itself are listed in `tests/conformance/rust/valgrind.supp`, each with
//! its reason.

use crate::artifacts::Imagekit;
use crate::conformance::{self, Run};
use crate::environment::Environment;
use crate::reports::Reports;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use crate::{Result, debian};
use std::path::{Path, PathBuf};
use std::process::Command;

const SUPPRESSIONS: &str = "tests/conformance/rust/valgrind.supp";

/// Modules of `tests/tests/object`.
const OBJECTS: [&str; 8] =
    ["core::", "conversions::", "fields::", "methods::", "families::", "enums::", "attr_visitor::", "structural::"];

/// The options of every run.
const OPTIONS: [&str; 5] = [
    "--quiet",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
    "--num-callers=40",
];

/// A program that leaks an object, to check that valgrind reports it.
const MISTAKE: &str = "#include <kernpack/c_api.h>
int main(void) {
  TVMFFIByteArray text = {\"a text that is too long for a small one\", 39};
  TVMFFIAny value;
  return TVMFFIStringFromByteArray(&text, &value);
}
";

/// Runs everything. `rest` is passed to `cargo xtask conformance rust`.
pub(crate) fn run(rest: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let valgrind = valgrind(&workspace)?;
    let library = build(&workspace)?;
    let reports = Reports::new(&workspace, "valgrind/reports")?;
    see_a_mistake(&workspace, &valgrind, &library, &reports)?;

    let mut runner = format!("{} --error-exitcode=9", valgrind.display());
    for option in options(&workspace, &reports) {
        runner.push(' ');
        runner.push_str(&option);
    }
    let runner = format!("{}={runner}", runner_variable(&workspace)?);
    let library_text = library.to_str().ok_or("the target folder's name is not UTF-8")?;
    let mut arguments = vec!["rust", "--library", library_text, "--env", &runner];
    arguments.extend(rest);
    let suite = conformance::run(&Run::parse(&arguments)?);
    let host = c_host(&workspace, &valgrind, &library, &reports);
    let objects = objects(&workspace, &valgrind, &reports);
    reports.judge("valgrind")?;
    suite.and(host).and(objects)
}

/// Installs valgrind if it is missing, which only root can do. A failure is reported later, when
/// the program is needed.
pub(crate) fn install(workspace: &Workspace) {
    if find_on_path("valgrind").is_none()
        && debian::can_install(workspace)
        && let Err(error) = debian::install(workspace, "valgrind")
    {
        println!("valgrind: {error}");
    }
}

/// The path of the program. Installs it if it is missing, which only root can do.
fn valgrind(workspace: &Workspace) -> Result<PathBuf> {
    install(workspace);
    find_on_path("valgrind").ok_or("no valgrind on PATH: install it (Debian, Ubuntu: apt-get install valgrind)".into())
}

/// Builds our library as it is shipped, but with line numbers for the reports.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder("valgrind")?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "kernpack-capi"]).env("CARGO_TARGET_DIR", &folder);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    step::run("build libtvm_ffi.so with line tables", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&folder.join("release"), "tvm_ffi"))
}

fn options(workspace: &Workspace, reports: &Reports) -> Vec<String> {
    let mut options: Vec<String> = OPTIONS.map(str::to_string).into();
    options.push(format!("--suppressions={}", workspace.root().join(SUPPRESSIONS).display()));
    options.push(format!("--log-file={}/%p", reports.folder().display()));
    options
}

/// The variable that sets the runner with which cargo starts tests.
fn runner_variable(workspace: &Workspace) -> Result<String> {
    let output = workspace.command("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc -vV names no host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.replace('-', "_").to_uppercase()))
}

/// A program that is linked with our library, compiled as the README of `examples/c-host` says.
fn compile(workspace: &Workspace, source: &Path, library: &Path) -> Result<PathBuf> {
    let folder = library.parent().ok_or("a library without a folder")?;
    let program = folder.join(source.file_stem().ok_or("a source without a name")?);
    let mut cc = workspace.command("cc");
    cc.args(["-std=c11", "-O1", "-g", "-Wall", "-Werror", "-I", "runtime/capi/include"]).arg(source);
    cc.arg("-L").arg(folder).args(["-ltvm_ffi", "-lm"]).arg(format!("-Wl,-rpath,{}", folder.display()));
    cc.arg("-o").arg(&program);
    step::run(&format!("compile {}", source.display()), &mut cc, Show::Warnings)?;
    Ok(program)
}

/// A valgrind command that runs a program.
fn watched(workspace: &Workspace, valgrind: &Path, program: &Path, reports: &Reports) -> Command {
    let mut command = workspace.command(valgrind);
    command.arg("--error-exitcode=9").args(options(workspace, reports)).arg(program);
    command
}

/// Checks that valgrind reports a mistake: otherwise every suite would pass.
fn see_a_mistake(workspace: &Workspace, valgrind: &Path, library: &Path, reports: &Reports) -> Result {
    let source = library.with_file_name("mistake.c");
    std::fs::write(&source, MISTAKE).map_err(|error| format!("cannot write {}: {error}", source.display()))?;
    let program = compile(workspace, &source, library)?;
    let status = watched(workspace, valgrind, &program, reports).status()?;
    let report = reports.text()?;
    reports.forget()?;
    if status.code() == Some(9) && report.contains("definitely lost") && report.contains("mistake.c") {
        println!("valgrind sees a leak");
        return Ok(());
    }
    Err(format!("valgrind: a string of libtvm_ffi.so that was lost was not reported: {status} {}", report.trim())
        .into())
}

/// Runs our tests of objects, built as `cargo xtask test` builds them.
fn objects(workspace: &Workspace, valgrind: &Path, reports: &Reports) -> Result {
    let environment = Environment::prepare()?;
    let mut cargo = environment.cargo("test");
    cargo.args(["--workspace", "--no-fail-fast", "--test", "object", "--", "--test-threads=2"]).args(OBJECTS);
    let mut runner = format!("{} --error-exitcode=9", valgrind.display());
    for option in options(workspace, reports) {
        runner.push(' ');
        runner.push_str(&option);
    }
    // Every operation runs, on chains that are short enough for a checker that is fifty times
    // slower.
    cargo.env(runner_variable(workspace)?, runner).env("KERNPACK_CHAIN_LENGTH", "2000");
    step::run("the tests of objects under valgrind", &mut cargo, Show::Warnings).map(drop)
}

/// Runs `examples/c-host`, with the example's library.
fn c_host(workspace: &Workspace, valgrind: &Path, library: &Path, reports: &Reports) -> Result {
    let imagekit = Imagekit::build(&Environment::prepare()?)?;
    let program = compile(workspace, Path::new("examples/c-host/host.c"), library)?;
    let mut command = watched(workspace, valgrind, &program, reports);
    let output = step::run("examples/c-host under valgrind", command.arg(imagekit.library), Show::Warnings)?;
    match output.contains("every check holds") {
        true => Ok(()),
        false => Err("examples/c-host did not come to its end".into()),
    }
}
