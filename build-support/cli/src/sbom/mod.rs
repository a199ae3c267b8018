//! `cargo kernpack sbom`: lists the crates that a library consists of.
//!
//! The format is CycloneDX 1.6 (<https://cyclonedx.org/docs/1.6/json/>), which wheels have in
//! `.dist-info/sboms` (PEP 770). The same build gives the same bytes, without times, random numbers
//! and folders of this machine.

mod crates;
mod options;

use std::process::{Command, Stdio};

use serde_json::{Value, json};

pub(crate) use options::{HELP, Options, parse};

use crate::{Result, cargo};
use crates::{Crate, Crates};

/// Returns the bill, as the text of a JSON file.
///
/// # Errors
/// Returns the errors of cargo, and an error if the Rust compiler does not print its version.
pub(crate) fn bill(options: &Options) -> Result<String> {
    let crates = Crates::parse(&tree(options)?)?;
    Ok(format!("{:#}\n", document(&crates, &rust_version()?)))
}

/// Returns the output of `cargo tree` for the crates that are linked into the library, without
/// those of build scripts and procedural macros.
fn tree(options: &Options) -> Result<String> {
    let mut cargo = cargo::tree();
    cargo.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--quiet", "--color", "never"]);
    cargo.args(["--format", crates::FORMAT]);
    options.select(&mut cargo);
    cargo::text_of(cargo, "cargo tree")
}

fn document(crates: &Crates, rust: &str) -> Value {
    let tool = json!({ "type": "application", "name": "cargo-kernpack", "version": env!("CARGO_PKG_VERSION") });
    let library = component(crates.root());
    // It is in each library, and not a crate of a registry.
    let std = json!({
        "type": "library", "bom-ref": format!("std@{rust}"), "name": "std", "version": rust,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }], "purl": format!("pkg:github/rust-lang/rust@{rust}"),
    });
    let components: Vec<Value> = crates.others().map(component).chain([std]).collect();
    let mut dependencies: Vec<Value> = crates
        .all()
        .map(|one| json!({ "ref": one.reference, "dependsOn": crates.needed_by(one).collect::<Vec<_>>() }))
        .collect();
    dependencies.push(json!({ "ref": format!("std@{rust}") }));
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "tools": { "components": [tool] }, "component": library },
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(one: &Crate) -> Value {
    let mut value = json!({ "type": "library", "bom-ref": one.reference, "name": one.name, "version": one.version });
    if let Some(license) = &one.license {
        value["licenses"] = json!([{ "expression": license }]);
    }
    if let Some(purl) = &one.purl {
        value["purl"] = json!(purl);
    }
    if let Some(repository) = &one.repository {
        value["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    value
}

/// Returns the version of the Rust compiler that cargo runs: `1.95.0`.
fn rust_version() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", rustc.to_string_lossy()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.split_whitespace().nth(1) {
        Some(version) if output.status.success() => Ok(version.to_owned()),
        _ => Err(format!("{} --version does not say a version: {}", rustc.to_string_lossy(), text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_all_that_is_in_the_library() {
        let crates = Crates::parse(
            "0kit v0.2.0 (/home/me/kit)\tMIT\t\n1left v1.2.3\tMIT/Apache-2.0\thttps://example.org/left\n2deep v0.1.0\t\t\n1deep v0.1.0\t\t (*)\n",
        )
        .unwrap();
        let bill = document(&crates, "1.95.0");
        assert_eq!(
            bill["metadata"]["component"],
            json!({ "type": "library", "bom-ref": "kit@0.2.0", "name": "kit", "version": "0.2.0", "licenses": [{ "expression": "MIT" }] })
        );
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["deep", "left", "std"]);
        assert_eq!(
            bill["components"][1],
            json!({
                "type": "library", "bom-ref": "left@1.2.3", "name": "left", "version": "1.2.3",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }], "purl": "pkg:cargo/left@1.2.3",
                "externalReferences": [{ "type": "vcs", "url": "https://example.org/left" }],
            })
        );
        assert_eq!(
            bill["dependencies"],
            json!([
                { "ref": "deep@0.1.0", "dependsOn": [] },
                { "ref": "kit@0.2.0", "dependsOn": ["deep@0.1.0", "left@1.2.3"] },
                { "ref": "left@1.2.3", "dependsOn": ["deep@0.1.0"] },
                { "ref": "std@1.95.0" },
            ])
        );
        assert!(!bill.to_string().contains("/home/me"), "{bill}");
    }

    #[test]
    fn the_compiler_says_its_version() {
        assert!(rust_version().unwrap().starts_with("1."));
    }
}
