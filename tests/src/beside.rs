//! Builds of workspace packages that a test needs: with the profile of the test itself, and in the
//! same folder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder below the target folder in which tests write; cargo calls it `CARGO_TARGET_TMPDIR`.
///
/// # Panics
/// If the running program is not a test that cargo built.
#[must_use]
pub fn scratch() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(3).expect("tests are in target/<profile>/deps").join("tmp")
}

/// The command that runs one test of this program again, in a process of its own:
/// `test_again(module_path!(), "name")`.
///
/// # Panics
/// If the running program does not know its own path.
#[must_use]
pub fn test_again(module_path: &str, test: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().expect("a test knows where it is"));
    again.args(["--exact", &format!("{}{test}", prefix(module_path))]);
    again
}

/// The same for all tests of a module: `tests_again(module_path!())`.
///
/// # Panics
/// If the running program does not know its own path.
#[must_use]
pub fn tests_again(module_path: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().expect("a test knows where it is"));
    again.arg(prefix(module_path));
    again
}

/// The prefix of the names of a module's tests: its path without the crate's name.
fn prefix(module_path: &str) -> String {
    module_path.split_once("::").map_or_else(String::new, |(_, module)| format!("{module}::"))
}

/// The command that builds these packages, and the folder that contains the results.
///
/// # Panics
/// If the running program is not a test that cargo built.
#[must_use]
pub fn cargo_build(packages: &[&str]) -> (Command, PathBuf) {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile_dir = test.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps");
    let target_dir = profile_dir.parent().expect("tests are in target/<profile>/deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).arg("build");
    cargo.args(packages.iter().flat_map(|package| ["--package", package])).arg("--target-dir").arg(target_dir);
    match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => {}
        Some(profile) => _ = cargo.args(["--profile", profile]),
        None => panic!("no profile folder in {}", test.display()),
    }
    (cargo, profile_dir.to_owned())
}

/// The packages that give the runtime all the features that it has in a build of the workspace.
const WITH_ALL_FEATURES: [&str; 2] = ["kernpack-tests", "kernpack-core"];

/// The same for programs, with the features of the runtime that the tests were built with, so that
/// it is not built again.
///
/// # Panics
/// If the running program is not a test that cargo built.
#[must_use]
pub fn cargo_build_programs(packages: &[&str]) -> (Command, PathBuf) {
    cargo_build(&[packages, &WITH_ALL_FEATURES].concat())
}
