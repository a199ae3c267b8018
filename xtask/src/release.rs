//! `cargo xtask release`: what a release uploads, without uploading it. cargo packs each crate that is to be published, in the order of its
//! dependencies, and builds it from its package, with the packages before it in place of the registry's: a file outside of a crate's folder,
//! or a dependency without a version, shows here. cargo refuses what is not committed.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;

/// What stays to be done by hand.
const CHECKLIST: &str = "\
next, for a release:
  1. the version in Cargo.toml: `[workspace.package]` and `[workspace.dependencies]`
  2. cargo xtask ci --all on a clean checkout
  3. the line on the clone in docs/first-library.md goes; `cargo kernpack new` writes versions by itself then
  4. cargo publish --workspace, then git tag vVERSION
";

/// Packs and builds; the list of the crates goes to standard output.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let mut publish = workspace.cargo("publish");
    publish.args(["--workspace", "--dry-run"]);
    let output = step::run("cargo publish --workspace --dry-run", &mut publish, Show::Warnings)?;
    let names = uploads(&output);
    if names.is_empty() {
        return Err("cargo named no crate that it would upload; see what it printed above".into());
    }
    println!("{} crates, in this order: {}\n{CHECKLIST}", names.len(), names.join(", "));
    Ok(())
}

/// The crates of the lines `   Uploading NAME vVERSION (PATH)`.
fn uploads(output: &str) -> Vec<&str> {
    output.lines().filter_map(|line| line.trim().strip_prefix("Uploading ")?.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_from_what_cargo_prints() {
        let output = "   Packaging kernpack v0.1.0 (/w/runtime)\n   Uploading kernpack-formats v0.1.0 (/w/runtime/formats)\nwarning: aborting upload due to dry run\n   Uploading kernpack v0.1.0 (/w/runtime)\n";
        assert_eq!(uploads(output), ["kernpack-formats", "kernpack"]);
        assert!(uploads("error: failed\n").is_empty());
    }
}
