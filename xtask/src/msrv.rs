//! `cargo xtask msrv`: checks that each published crate compiles with the oldest Rust that its
//! manifest names (`rust-version`).
//!
//! Clippy (`incompatible_msrv`), which `cargo xtask ci` runs on every crate, finds newer functions
//! of the standard library. This command checks the rest: that no dependency needs a newer Rust,
//! that the crate does not use newer syntax, and that no crate needs a newer Rust than the policy
//! in docs/supported-rust.md allows. If rustup has one of the oldest versions installed, the crates
//! are also compiled with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;

use crate::Result;
use crate::release::is_published;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};

/// A version of Rust: `1.88` or `1.88.0`.
type Version = (u32, u32);

/// The policy: the newest Rust that a published crate may need, the stable version of the last
/// release minus six.
const POLICY: Version = (1, 93);

/// A package of the workspace that is published.
struct Published {
    name: String,
    folder: PathBuf,
    oldest: Version,
}

/// Checks all published crates.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let mut metadata = workspace.cargo("metadata");
    metadata.args(["--locked", "--format-version", "1", "--all-features"]);
    let output = metadata.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let published = published(&metadata)?;
    let mut problems = Vec::new();
    for package in &published {
        if package.oldest > POLICY {
            let (oldest, policy) = (shown(package.oldest), shown(POLICY));
            problems.push(format!("{}: rust-version is {oldest}, but the policy is {policy} at most", package.name));
        }
        problems.extend(newer_dependencies(&metadata, package)?);
        for file in sources(&package.folder)? {
            let text = fs::read_to_string(&file)?;
            let tokens: TokenStream =
                text.parse().map_err(|error| format!("{}: cannot be read as Rust: {error}", file.display()))?;
            for (since, what) in newer_syntax(tokens) {
                if since > package.oldest {
                    let (file, oldest) = (file.strip_prefix(workspace.root()).unwrap_or(&file), shown(package.oldest));
                    let since = shown(since);
                    problems.push(format!("{}: {what} needs Rust {since}, expected {oldest}", file.display()));
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(format!("msrv:\n{}", problems.join("\n")).into());
    }
    println!("msrv: {} published crates need no newer Rust than their manifests name", published.len());
    compile(&workspace, &published)
}

/// The packages of the workspace that can be published, with their oldest Rust.
fn published(metadata: &Value) -> Result<Vec<Published>> {
    let mut published = Vec::new();
    for package in list(metadata, "packages") {
        if !is_published(package) {
            continue;
        }
        let name = package["name"].as_str().unwrap_or_default().to_string();
        let oldest = version(&package["rust_version"]).ok_or_else(|| format!("{name}: no rust-version"))?;
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().ok_or("a manifest without a folder")?.to_path_buf();
        published.push(Published { name, folder, oldest });
    }
    Ok(published)
}

/// Messages about dependencies, with all features, whose `rust-version` is newer than the package's
/// own.
fn newer_dependencies(metadata: &Value, package: &Published) -> Result<Vec<String>> {
    let packages = list(metadata, "packages");
    let of_id = |id: &Value| packages.iter().find(|package| package["id"] == *id);
    let own = packages.iter().find(|other| other["name"] == *package.name && other["source"].is_null());
    let mut next = vec![own.map(|own| own["id"].clone()).ok_or("a package that is not in the metadata")?];
    let (mut seen, mut problems) = (next.clone(), Vec::new());
    while let Some(id) = next.pop() {
        let found = of_id(&id).ok_or_else(|| format!("{id}: not in the metadata"))?;
        if let Some(needed) = version(&found["rust_version"]).filter(|needed| *needed > package.oldest) {
            let (needed, oldest) = (shown(needed), shown(package.oldest));
            let text = |name: &str| found[name].as_str().unwrap_or_default();
            let (name, version) = (text("name"), text("version"));
            problems.push(format!("{}: {name} {version} needs Rust {needed}, expected {oldest}", package.name));
        }
        let node = list(&metadata["resolve"], "nodes").iter().find(|node| node["id"] == id);
        for dependency in node.map_or(&[][..], |node| list(node, "deps")) {
            let is_used = list(dependency, "dep_kinds").iter().any(|kind| kind["kind"] != "dev");
            if is_used && !seen.contains(&dependency["pkg"]) {
                seen.push(dependency["pkg"].clone());
                next.push(dependency["pkg"].clone());
            }
        }
    }
    Ok(problems)
}

/// The Rust files of a package: `build.rs` and the files below `src`.
fn sources(package: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![package.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.extend(Some(package.join("build.rs")).filter(|file| file.is_file()));
    files.sort();
    Ok(files)
}

/// Syntax that Rust 1.88 does not support, with the version that introduced it.
fn newer_syntax(tokens: TokenStream) -> Vec<(Version, &'static str)> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        Some(TokenTree::Punct(punct)) => punct.as_char().to_string(),
        _ => String::new(),
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match word(at).as_str() {
            "if" if is_guard_with_let(&tokens[at..]) => found.push(((1, 95), "`let` in a guard")),
            "cfg_select" if word(at + 1) == "!" => found.push(((1, 95), "`cfg_select!`")),
            "format_args" if word(at + 1) == "!" && at > 0 && word(at - 1) == "=" => {
                found.push(((1, 89), "`let` with `format_args!`"));
            }
            _ => {}
        }
        if let TokenTree::Group(group) = token {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            if let (Delimiter::Bracket, [.., TokenTree::Punct(semicolon), TokenTree::Ident(length)]) =
                (group.delimiter(), &inner[..])
                && semicolon.as_char() == ';'
                && length == "_"
            {
                found.push(((1, 89), "an array of inferred length"));
            }
            found.extend(newer_syntax(group.stream()));
        }
    }
    found
}

/// Returns true if the tokens from `if` on are a guard (`=>` comes before a block) that has a
/// `let`.
fn is_guard_with_let(tokens: &[TokenTree]) -> bool {
    let mut has_let = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return false,
            TokenTree::Ident(ident) if ident == "let" => has_let = true,
            TokenTree::Punct(punct) if punct.as_char() == '=' => {
                if matches!(tokens.get(at + 1), Some(TokenTree::Punct(next)) if next.as_char() == '>') {
                    return has_let;
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => return false,
            _ => {}
        }
    }
    false
}

/// Compiles the crates of each oldest version with that version, if rustup has it installed.
fn compile(workspace: &Workspace, published: &[Published]) -> Result {
    let toolchains = match find_on_path("rustup") {
        Some(rustup) => workspace.command(rustup).args(["toolchain", "list"]).output()?.stdout,
        None => Vec::new(),
    };
    let toolchains = String::from_utf8_lossy(&toolchains);
    let mut oldest: Vec<Version> = published.iter().map(|package| package.oldest).collect();
    oldest.sort_unstable();
    oldest.dedup();
    for version in oldest {
        let name = shown(version);
        let is_that = |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['.', '-']));
        let Some(toolchain) = toolchains.lines().find(|line| is_that(line)).and_then(|line| line.split(' ').next())
        else {
            println!("msrv: not compiled with Rust {name} itself, which rustup does not have here");
            continue;
        };
        let mut cargo: Command = workspace.command("rustup");
        cargo.args(["run", toolchain, "cargo", "check", "--locked", "--no-default-features"]);
        cargo.env("CARGO_TARGET_DIR", workspace.folder(&format!("msrv/{name}"))?).env("CARGO_INCREMENTAL", "0");
        // Crates that link LLVM need a library that this toolchain does not contain.
        let without_llvm = published.iter().filter(|package| !LINKS_LLVM.contains(&package.name.as_str()));
        for package in without_llvm.filter(|package| package.oldest <= version) {
            cargo.args(["--package", &package.name]);
        }
        step::run(&format!("cargo check with Rust {name}"), &mut cargo, Show::Warnings)?;
    }
    Ok(())
}

/// The crates that always link LLVM.
const LINKS_LLVM: [&str; 4] = ["kernpack-llvm-link", "kernpack-compiler", "kernpack-graph", "kernpack-nnvm"];

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn version(value: &Value) -> Option<Version> {
    let mut parts = value.as_str()?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn shown((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_newer_than_1_88() {
        for (text, expected) in [
            ("match x { Some(y) if let Some(z) = f(y) => z, _ => 0 }", &[((1, 95), "`let` in a guard")][..]),
            ("match x { Some(y) if y && let Some(z) = f(y) => z }", &[((1, 95), "`let` in a guard")]),
            ("let text = format_args!(\"{a}\"); f(text)", &[((1, 89), "`let` with `format_args!`")]),
            ("let a: [u8; _] = [1, 2];", &[((1, 89), "an array of inferred length")]),
            ("cfg_select! { unix => {} }", &[((1, 95), "`cfg_select!`")]),
            ("if let Some(x) = y && let Ok(z) = f(x) { match z { _ => 1 } }", &[]),
            ("match x { Some(y) if y > 1 => { if let Some(z) = y { z } } _ => 0 }", &[]),
            ("f(format_args!(\"{a}\")); let a = [0; 3]; let _ = 1;", &[]),
        ] {
            assert_eq!(newer_syntax(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_dependency_that_needs_a_newer_rust_is_named() {
        let metadata = serde_json::json!({
            "packages": [
                { "id": "a", "name": "a", "version": "1.0.0", "source": null, "publish": null, "rust_version": "1.88",
                  "manifest_path": "/r/a/Cargo.toml" },
                { "id": "b", "name": "b", "version": "2.0.0", "source": "x", "publish": null, "rust_version": "1.90.0" },
                { "id": "c", "name": "c", "version": "3.0.0", "source": "x", "publish": null, "rust_version": "1.99" },
                { "id": "d", "name": "d", "version": "4.0.0", "source": null, "publish": [], "rust_version": "1.95" },
            ],
            "resolve": { "nodes": [
                { "id": "a", "deps": [
                    { "pkg": "b", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "c", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "b", "deps": [] },
            ] },
        });
        let published = published(&metadata).unwrap();
        assert_eq!(published.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(
            newer_dependencies(&metadata, &published[0]).unwrap(),
            ["a: b 2.0.0 needs Rust 1.90, expected 1.88"]
        );
    }
}
