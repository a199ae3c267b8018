//! `cargo xtask ci`: the checks of continuous integration, on any machine.

use crate::bench::size;
use crate::beside::Beside;
use crate::environment::Environment;
use crate::proved::{self, Choice, Due, Suite};
use crate::runner::{self, Report};
use crate::step::{self, Show};
use crate::workspace::Workspace;
use crate::{
    Result, api, book, compilers, demo, deny, floors, gpu_kit, llvm_functions, msrv, onnx, other_systems, ports, times,
    toolchains, valgrind, words,
};
use std::process::Command;
use std::time::Instant;

/// Crates with a workspace of their own, which formatting and lints check separately.
const OUTSIDE: [&str; 3] = ["tests/downstream/Cargo.toml", "tests/bench/Cargo.toml", "tests/ports/Cargo.toml"];

/// Commands of this program that run in the background while formatting, lints, documentation,
/// tests and demo run, one after the other: mostly programs that use one core. They build in
/// folders of their own. `valgrind` and `asan` use the builds of conformance.
const BESIDE: [(&[&str], Option<&Suite>); 8] = [
    (&["races"], Some(&proved::RACES)),
    (&["fuzz", "--seconds", "10"], Some(&proved::FUZZ)),
    (&["conformance"], Some(&proved::CONFORMANCE)),
    (&["valgrind"], Some(&proved::VALGRIND)),
    (&["asan"], Some(&proved::ASAN)),
    (&["asan", "extension"], Some(&proved::ASAN_EXTENSION)),
    (&["onnx"], Some(&proved::ONNX)),
    // The same cases each time: a failure is a fault of the change.
    (&["differential", "--cases", "200", "--seed", "1"], Some(&proved::DIFFERENTIAL)),
];

/// Runs every check, also after a failure, and names those that failed. If `choice` says so, suites
/// that have passed with the same inputs are left out.
pub(crate) fn run(choice: Choice) -> Result {
    let start = Instant::now();
    let environment = Environment::prepare()?;
    if let Some(line) = disk_line(&environment.workspace) {
        println!("{line}");
    }
    valgrind::install(&environment.workspace);
    let (dues, commands): (Vec<_>, Vec<_>) = commands_beside(&environment, choice)?.into_iter().unzip();
    let beside = Beside::start(commands);
    let mut failed = Vec::new();
    let mut keep = |name: &str, outcome: Result| {
        if let Err(error) = outcome {
            println!("failed: {error}");
            failed.push(name.to_string());
        }
    };
    for (name, mut command) in checks(&environment) {
        keep(&name, step::run(&name, &mut command, Show::Warnings).map(drop));
    }
    keep("floors", floors::run());
    keep("words", words::run(&[]));
    keep("msrv", msrv::run());
    keep("systems", other_systems::run(&environment));
    keep("size", size::check());
    keep("api", api::run(false));
    keep("deny", deny::run());
    keep("book", book::run(&[]));
    keep("test", runner::run_in(&environment, choice).and_then(Report::close));
    // Uses the builds of the tests.
    keep("gpu-kit", gpu_kit::check(&environment));
    let tests = environment.cargo("test");
    keep("llvm-functions", llvm_functions::compare(&environment.workspace, tests, false));
    keep("demo", demo::run_in(&environment));
    match choice {
        Choice::Every | Choice::EveryAndRecord => {
            keep("toolchains", toolchains::run(&[]));
            keep("compilers", compilers::run());
            keep("ports", ports::run(&[]));
        }
        // The first two follow Debian unstable, which changes independently of us; the last needs
        // PyPI.
        Choice::Changed | Choice::ChangedAndRecord => {
            for suite in [proved::TOOLCHAINS, proved::COMPILERS, proved::PORTS] {
                println!("{}", suite.left_out(&environment.workspace));
            }
        }
    }
    for (done, due) in beside.finish().into_iter().zip(dues) {
        let passed = done.outcome.and_then(|()| due.map_or(Ok(()), |due| due.passed()));
        keep(&done.name, passed);
    }
    times::print("cargo xtask ci", start.elapsed());
    if failed.is_empty() {
        println!("ci: everything passed in {:.0} s", start.elapsed().as_secs_f64());
        return Ok(());
    }
    Err(format!("ci: failed after {:.0} s: {}", start.elapsed().as_secs_f64(), failed.join(", ")).into())
}

/// The size that a whole run writes into an empty `target/`, in gigabytes.
const WRITTEN_GB: u64 = 20;

/// A line with the free space of the disk, and a warning if it is low: a linker that runs out of
/// space reports "Bus error". `None` if `df` is not GNU's.
fn disk_line(workspace: &Workspace) -> Option<String> {
    let output = workspace.command("df").args(["--output=avail", "-B1G", "."]).output().ok()?;
    let free: u64 = String::from_utf8(output.stdout).ok()?.lines().nth(1)?.trim().parse().ok()?;
    let little = if free < WRITTEN_GB { "; where target/ is empty that is too little" } else { "" };
    Some(format!("disk: {free} GB are free, and a whole check writes about {WRITTEN_GB} GB into target/{little}"))
}

/// A command with its name, and the record that a pass of it is written to.
type Started = (Option<Due>, (String, Command));

/// The commands of `BESIDE` that have to run.
fn commands_beside(environment: &Environment, choice: Choice) -> Result<Vec<Started>> {
    let program = std::env::current_exe()?;
    let mut commands = Vec::new();
    for (arguments, suite) in BESIDE {
        let due = match suite.map(|suite| suite.due(&environment.workspace, choice)) {
            Some(None) => continue,
            Some(Some(due)) => Some(due),
            None => None,
        };
        // The environment of the tests: with another one, cargo would build the workspace once more
        // for `onnx`.
        let mut command = environment.command(&program);
        command.args(arguments);
        commands.push((due, (format!("cargo xtask {}", arguments.join(" ")), command)));
    }
    Ok(commands)
}

/// Formatting, lints and documentation.
fn checks(environment: &Environment) -> Vec<(String, Command)> {
    let cargo = |subcommand: &str, arguments: &[&str]| {
        let mut command = environment.cargo(subcommand);
        command.args(arguments);
        (format!("cargo {subcommand} {}", arguments.join(" ")), command)
    };
    let mut checks = vec![cargo("fmt", &["--all", "--check"])];
    checks.extend(OUTSIDE.map(|manifest| cargo("fmt", &["--all", "--check", "--manifest-path", manifest])));
    checks.push(cargo("clippy", &["--workspace", "--all-targets", "--", "-D", "warnings"]));
    checks.extend(
        OUTSIDE
            .map(|manifest| cargo("clippy", &["--all-targets", "--manifest-path", manifest, "--", "-D", "warnings"])),
    );
    // With an example, cargo enables the features of development dependencies: the dependencies of
    // build scripts are then built once for the documentation and for the tests.
    let (name, mut doc) =
        cargo("doc", &["--workspace", "--no-deps", "--lib", "--bins", "--example", onnx::RUNNER_OF_TESTS]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    checks.push((name, doc));
    checks
}
