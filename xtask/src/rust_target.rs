//! Rust's standard library for another target than that of this machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::environment::Environment;
use crate::rust_source;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};

/// Installs the target's standard library. Returns the `RUSTFLAGS` that rustc needs for it, if any.
pub(crate) fn prepare(environment: &Environment, target: &str) -> Result<Option<OsString>> {
    let workspace = &environment.workspace;
    let folder = libdir(workspace, target)?;
    if has_std(&folder) {
        return Ok(None);
    }
    let by_rustup = with_rustup(workspace, target);
    if by_rustup.is_ok() && has_std(&folder) {
        return Ok(None);
    }
    let why = by_rustup.err().map_or_else(|| "it left no standard library".to_owned(), |error| error.to_string());
    let sysroot = rust_source::sysroot(environment, target).map_err(|error| {
        format!("{why}; from its source: {error}; run `rustup target add {target}` where there is a network")
    })?;
    let mut flags = OsString::from("--sysroot=");
    flags.push(sysroot);
    Ok(Some(flags))
}

/// Returns whether the installed rustc can build for the target.
pub(crate) fn is_there(workspace: &Workspace, target: &str) -> bool {
    libdir(workspace, target).is_ok_and(|folder| has_std(&folder))
}

fn with_rustup(workspace: &Workspace, target: &str) -> Result {
    if find_on_path("rustup").is_none() {
        return Err(
            "there is no rustup; with a Rust of a distribution, install its standard library for the target".into()
        );
    }
    let mut rustup = workspace.command("rustup");
    step::run(&format!("rustup target add {target}"), rustup.args(["target", "add", target]), Show::Warnings)?;
    Ok(())
}

/// The folder in which rustc looks for the target's libraries.
fn libdir(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let output = workspace.command("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let output = output.map_err(|error| format!("rustc cannot be run: {error}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn has_std(folder: &Path) -> bool {
    let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    })
}
