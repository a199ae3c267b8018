//! `cargo xtask ci --quick`: the checks before a commit, in at most 8 minutes.
//!
//! Formatting, lints, floors, words, `rust-version`, links and variables of the book, the public
//! API, the tests of xtask, and the tests of the packages that changed. A package has changed if
//! git shows a difference in one of its files: since the commit that this branch and its upstream
//! (else `main`, else the commit before) have in common, or in the working tree.

use crate::environment::Environment;
use crate::step::{self, Show};
use crate::totals::Totals;
use crate::workspace::Workspace;
use crate::{Result, api, book, floors, msrv, times, words};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Packages whose tests take minutes: `cargo xtask test` runs them.
const LONG: [&str; 3] = ["kernpack-build", "kernpack-cli", "kernpack-tests"];

/// The package whose tests always run: they read the book, the manifests and the inputs of suites,
/// which belong to other packages, or to none. They take 20 seconds.
const ALWAYS: &str = "xtask";

/// Checks that only `cargo xtask ci` runs.
const LEFT_OUT: &str = "documentation, doc tests, Python, Node.js, the blocks of the book, the crates outside the workspace, deny, onnx, fuzz, demo";

/// Runs the checks, also after a failure, and reports those that failed and those that were left
/// out.
pub(crate) fn run() -> Result {
    let start = Instant::now();
    let environment = Environment::prepare()?;
    let changed = changed_packages(&environment.workspace)?;
    let mut failed = Vec::new();
    let mut keep = |name: &str, outcome: Result| {
        if let Err(error) = outcome {
            println!("failed: {error}");
            failed.push(name.to_string());
        }
    };
    let cargo = |subcommand: &str, arguments: &[&str]| {
        let mut command = environment.cargo(subcommand);
        command.args(arguments);
        step::run(&format!("cargo {subcommand} {}", arguments.join(" ")), &mut command, Show::Warnings).map(drop)
    };
    keep("fmt", cargo("fmt", &["--all", "--check"]));
    keep("floors", floors::run());
    keep("words", words::run(&[]));
    keep("msrv", msrv::run());
    keep("book", book::run(&[]));
    keep("clippy", cargo("clippy", &["--workspace", "--all-targets", "--", "-D", "warnings"]));
    keep("api", api::run(false));
    let (short, long) = short_and_long(&changed);
    let mut totals = Totals::default();
    let mut tests = environment.cargo("test");
    // Unit tests and integration tests: each documentation test would be a program of its own.
    tests.args(["--no-fail-fast", "--lib", "--bins", "--tests"]);
    tests.args(short.iter().flat_map(|name| ["--package", name]));
    let finished = step::watch(&format!("tests of {}", short.join(", ")), &mut tests, Show::Warnings)?;
    totals += Totals::of_cargo(&finished.output);
    keep("tests", if finished.success { Ok(()) } else { Err(format!("tests: {}", finished.status).into()) });
    times::print("cargo xtask ci --quick", start.elapsed());
    if !long.is_empty() {
        println!("not run here: the tests of {}, which have changed (they take minutes)", long.join(", "));
    }
    println!("not run here: {LEFT_OUT}, and the suites that CONTRIBUTING.md names; `cargo xtask ci` runs them");
    println!("{totals}");
    match failed[..] {
        [] => Ok(()),
        _ => Err(format!("ci --quick: failed: {}", failed.join(", ")).into()),
    }
}

/// The packages whose tests run here, and those that have changed and whose tests take too long.
fn short_and_long(changed: &BTreeSet<String>) -> (Vec<&str>, Vec<&str>) {
    let (long, mut short): (Vec<&str>, Vec<&str>) =
        changed.iter().map(String::as_str).partition(|name| LONG.contains(name));
    if !short.contains(&ALWAYS) {
        short.push(ALWAYS);
    }
    (short, long)
}

/// The packages of the workspace that have a changed file.
fn changed_packages(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut metadata = workspace.cargo("metadata");
    metadata.args(["--no-deps", "--format-version", "1"]);
    let packages = packages(&text_of(&mut metadata)?, workspace.root())?;
    let git = |arguments: &[&str]| text_of(workspace.command("git").args(arguments));
    let base = ["@{upstream}", "main", "HEAD~1"]
        .iter()
        .find_map(|other| {
            let base = git(&["merge-base", "HEAD", other]).ok()?.trim().to_string();
            // For a branch that is its own base, the changes are the last commit and the working
            // tree.
            (base != git(&["rev-parse", "HEAD"]).ok()?.trim()).then_some(base)
        })
        .unwrap_or_else(|| "HEAD".to_string());
    let files = git(&["diff", "--name-only", &base])? + &git(&["ls-files", "--others", "--exclude-standard"])?;
    println!("changes since {base}: {} files", files.lines().count());
    Ok(files.lines().filter_map(|file| package_of(Path::new(file), &packages)).map(str::to_string).collect())
}

/// A package of the workspace: its folder, from the root, and its name.
type Package = (PathBuf, String);

/// Reads the output of `cargo metadata`.
fn packages(metadata: &str, root: &Path) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let read = |package: &Value| -> Option<Package> {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(root).ok()?;
        Some((folder.to_path_buf(), package["name"].as_str()?.to_string()))
    };
    Ok(packages.iter().filter_map(read).collect())
}

/// The package with the innermost folder that contains the file.
fn package_of<'p>(file: &Path, packages: &'p [Package]) -> Option<&'p str> {
    let above = packages.iter().filter(|(folder, _)| file.starts_with(folder));
    above.max_by_key(|(folder, _)| folder.components().count()).map(|(_, name)| name.as_str())
}

/// Returns the output of a command that succeeds.
pub(crate) fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_deepest_package_above_it() {
        let metadata = r#"{"packages": [
            {"name": "kernpack", "manifest_path": "/w/runtime/Cargo.toml"},
            {"name": "kernpack-core", "manifest_path": "/w/runtime/core/Cargo.toml"},
            {"name": "elsewhere", "manifest_path": "/x/Cargo.toml"}]}"#;
        let packages = packages(metadata, Path::new("/w")).unwrap();
        for (file, package) in [
            ("runtime/src/lib.rs", Some("kernpack")),
            ("runtime/core/src/lib.rs", Some("kernpack-core")),
            ("runtime/core.md", Some("kernpack")),
            ("docs/python.md", None),
        ] {
            assert_eq!(package_of(Path::new(file), &packages), package, "{file}");
        }
    }

    #[test]
    fn tests_of_xtask_run_whatever_changed() {
        let tests = |changed: &[&str]| {
            let changed = changed.iter().map(|name| (*name).to_owned()).collect();
            let (short, long) = short_and_long(&changed);
            (short.join(" "), long.join(" "))
        };
        for (changed, short, long) in [
            (&[][..], "xtask", ""),
            (&["kernpack-cli"], "xtask", "kernpack-cli"),
            (&["kernpack-build", "kernpack-core", "xtask"], "kernpack-core xtask", "kernpack-build"),
        ] {
            assert_eq!(tests(changed), (short.to_owned(), long.to_owned()));
        }
    }

    #[test]
    fn listed_packages_are_packages_of_the_workspace() {
        let workspace = Workspace::find().unwrap();
        let mut metadata = workspace.cargo("metadata");
        metadata.args(["--no-deps", "--offline", "--format-version", "1"]);
        let packages = packages(&text_of(&mut metadata).unwrap(), workspace.root()).unwrap();
        for name in LONG.into_iter().chain([ALWAYS]) {
            assert!(packages.iter().any(|(_, other)| other == name), "{name}");
        }
    }
}
