//! `cargo xtask ci`: what continuous integration runs, on any machine.

use crate::beside::Beside;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::{Result, api, book, demo, floors, runner};
use std::process::Command;
use std::time::Instant;

/// Crates with a workspace of their own, for formatting and lints: they are outside ours.
const OUTSIDE: [&str; 2] = ["tests/downstream/Cargo.toml", "tests/bench/Cargo.toml"];

/// Commands of this program that run beside formatting, lints, documentation, tests and demo, one after the other: mostly programs that
/// use one core. They build in folders of their own. The last two use what conformance has built.
const BESIDE: [&[&str]; 5] = [&["races"], &["fuzz", "--seconds", "10"], &["conformance"], &["valgrind"], &["asan"]];

/// Runs every check, also after one that fails, and names those that failed.
pub(crate) fn run() -> Result {
    let start = Instant::now();
    let environment = Environment::prepare()?;
    let beside = Beside::start(commands_beside(&environment)?);
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
    keep("api", api::run(false));
    keep("book", book::run(&[]));
    keep("test", runner::run_in(&environment));
    keep("demo", demo::run_in(&environment));
    for (name, outcome) in beside.finish() {
        keep(&name, outcome);
    }
    if failed.is_empty() {
        println!("ci: everything passed in {:.0} s", start.elapsed().as_secs_f64());
        return Ok(());
    }
    Err(format!("ci: failed after {:.0} s: {}", start.elapsed().as_secs_f64(), failed.join(", ")).into())
}

/// The commands of `BESIDE`, with their names.
fn commands_beside(environment: &Environment) -> Result<Vec<(String, Command)>> {
    let program = std::env::current_exe()?;
    let command = |arguments: &[&str]| {
        let mut command = environment.workspace.command(&program);
        command.args(arguments);
        (format!("cargo xtask {}", arguments.join(" ")), command)
    };
    Ok(BESIDE.iter().map(|arguments| command(arguments)).collect())
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
    let (name, mut doc) = cargo("doc", &["--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    checks.push((name, doc));
    checks
}
