//! Packages of the workspace that a test needs built: as the test itself was built, and beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The command that builds these packages, and the folder in which the results are after it.
///
/// # Panics
/// Where the running program is no test that cargo built.
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
