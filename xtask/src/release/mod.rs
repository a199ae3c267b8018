//! `cargo xtask release`: the checks of a release, without an upload. cargo packs each crate to be
//! published, in the order of its dependencies, and builds it from its package, with the packages
//! before it in place of the registry's: this finds files outside of a crate's folder, and
//! dependencies without a version. cargo requires that all changes are committed.
//!
//! Before that, the command checks the required fields and files of published crates (manifest.rs)
//! and the dependencies (license.rs), as a test does in each run of the tests.

mod license;
mod manifest;

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use serde_json::Value;
use std::fs;

pub(crate) use manifest::is_published;

/// The remaining manual steps.
const CHECKLIST: &str = "\
next, for a release:
  1. before the first one, the public address of the project, which is in no file yet: `repository = \"URL\"` in
     `[workspace.package]` of Cargo.toml, and `repository.workspace = true` in the manifest of each crate named
     above (cargo refuses that line while the workspace has no address; the links of the READMEs to the book
     need it); then SECURITY.md says where reports go
  2. the version in Cargo.toml: `[workspace.package]` and `[workspace.dependencies]`; CHANGELOG.md: `Unreleased`
     becomes the version and its date
  3. cargo xtask ci --all on a clean checkout
  4. the line on the clone in docs/first-library.md goes, and so do the sentences that nothing is published or
     released yet, in README.md, SECURITY.md, CHANGELOG.md and docs/versions.md; `cargo kernpack new` writes versions
     by itself then
  5. cargo publish --workspace, then git tag vVERSION
";

/// Packs and builds the crates; the list of the crates is printed on standard output.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    check(&workspace)?;
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

/// Checks the manifests and files of all published crates, and the licences and sources of all
/// dependencies.
fn check(workspace: &Workspace) -> Result {
    let mut metadata = workspace.cargo("metadata");
    metadata.args(["--locked", "--format-version", "1", "--all-features"]);
    let output = metadata.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let published: Vec<&Value> = list(&metadata, "packages").iter().filter(|package| is_published(package)).collect();
    if published.is_empty() {
        return Err("cargo metadata names no crate that is published".into());
    }
    let mut problems = Vec::new();
    for package in &published {
        problems.extend(manifest::fields(package));
        let name = package["name"].as_str().unwrap_or_default();
        let mut packed = workspace.cargo("package");
        packed.args(["--list", "--allow-dirty", "--offline", "--package", name]);
        let packed = packed.output()?;
        if !packed.status.success() {
            return Err(format!("cargo package: {}", String::from_utf8_lossy(&packed.stderr).trim()).into());
        }
        let files = String::from_utf8(packed.stdout)?;
        problems.extend(manifest::files(package, workspace.root(), &files.lines().collect::<Vec<_>>()));
        // cargo's warnings before it packs: missing fields, and file names that other systems do
        // not allow.
        let warnings = String::from_utf8_lossy(&packed.stderr);
        problems
            .extend(warnings.lines().filter(|line| line.starts_with("warning")).map(|line| format!("{name}: {line}")));
    }
    problems.extend(manifest::repositories(&published));
    problems.extend(license::problems(&metadata, &fs::read_to_string(workspace.root().join("deny.toml"))?)?);
    if problems.is_empty() { Ok(()) } else { Err(format!("release:\n{}", problems.join("\n")).into()) }
}

/// The elements of a list in a JSON object; none if there is no such list.
fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The crates in lines `   Uploading NAME vVERSION (PATH)`.
fn uploads(output: &str) -> Vec<&str> {
    output.lines().filter_map(|line| line.trim().strip_prefix("Uploading ")?.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_crates_have_what_registries_show_and_dependencies_are_allowed() {
        check(&Workspace::find().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn names_are_taken_from_what_cargo_prints() {
        let output = "   Packaging kernpack v0.1.0 (/w/runtime)\n   Uploading kernpack-formats v0.1.0 (/w/runtime/formats)\nwarning: aborting upload due to dry run\n   Uploading kernpack v0.1.0 (/w/runtime)\n";
        assert_eq!(uploads(output), ["kernpack-formats", "kernpack"]);
        assert!(uploads("error: failed\n").is_empty());
    }
}
