//! The two wheels of a port, installed into folders of their own.

use super::{Run, Side};
use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of both packages.
pub(super) struct Installed {
    folders: [PathBuf; 2],
}

/// Builds `cargo kernpack`.
pub(super) fn cargo_kernpack(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = workspace.cargo("build");
    step::run("build cargo kernpack", build.args(["--package", "kernpack-cli"]), Show::Warnings)?;
    Ok(workspace.cargo_target().join(format!("debug/cargo-kernpack{}", env::consts::EXE_SUFFIX)))
}

impl Installed {
    /// Builds our wheel and installs it; installs PyPI's wheel of the same version.
    pub(super) fn prepare(run: &Run, cargo_kernpack: &Path) -> Result<Self> {
        let wheel = build(run, cargo_kernpack)?;
        let title = run.port.title();
        let ours = install(run, Side::Ours, "our wheel", &["--no-index", &wheel.to_string_lossy()])?;
        let requirement = format!("{}=={}", run.port.name, run.port.version);
        let theirs = install(run, Side::Theirs, &title, &["--only-binary", ":all:", &requirement]).map_err(|error| {
            format!("{error}: the wheel of {title} could not be installed (PyPI, or the index that pip is configured for)")
        })?;
        Ok(Self { folders: [ours, theirs] })
    }

    /// The folder of one package, for `PYTHONPATH`.
    pub(super) fn folder(&self, side: Side) -> &Path {
        &self.folders[side as usize]
    }

    /// The shared library of one package: the largest one, if there are several.
    pub(super) fn library(&self, side: Side) -> Result<PathBuf> {
        let mut folders = vec![self.folder(side).to_path_buf()];
        let mut found: Option<(u64, PathBuf)> = None;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "so") {
                    let size = fs::metadata(&path)?.len();
                    found = found.into_iter().chain([(size, path)]).max();
                }
            }
        }
        let problem = || format!("{}: no shared library in it", self.folder(side).display());
        Ok(found.ok_or_else(problem)?.1)
    }
}

/// Builds our wheel, with the versions of the lock file.
fn build(run: &Run, cargo_kernpack: &Path) -> Result<PathBuf> {
    let manifest = run.port.folder.join("Cargo.toml");
    let mut fetch = run.workspace.cargo("fetch");
    fetch.args(["--locked", "--manifest-path"]).arg(&manifest);
    step::run(&format!("fetch the crates of {}", run.port.name), &mut fetch, Show::Warnings)
        .map_err(|error| format!("{error}: its Cargo.lock is out of date, or a crate could not be downloaded"))?;
    let out = run.folder("wheel")?;
    fs::remove_dir_all(&out).map_err(|error| format!("cannot remove {}: {error}", out.display()))?;
    let mut wheel = run.workspace.command(cargo_kernpack);
    wheel.args(["kernpack", "wheel", "--strip", "--offline", "--manifest-path"]).arg(&manifest).arg("--out").arg(&out);
    wheel.env("CARGO_TARGET_DIR", run.workspace.folder("ports/build")?).env("CARGO_TERM_COLOR", "never");
    step::run(&format!("build our wheel of {}", run.port.name), &mut wheel, Show::Warnings)?;
    let mut files = fs::read_dir(&out)?.flatten().map(|entry| entry.path());
    let found = files.find(|file| file.extension().is_some_and(|extension| extension == "whl"));
    found.ok_or_else(|| format!("{}: no wheel was written", out.display()).into())
}

/// Installs a package into a new folder, without its dependencies: the environment has them.
fn install(run: &Run, side: Side, what: &str, words: &[&str]) -> Result<PathBuf> {
    let folder = run.folder(side.name())?;
    fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    let mut pip = run.workspace.command(run.interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--target"]);
    pip.arg(&folder).args(words);
    step::run(&format!("install {what} into {}", folder.display()), &mut pip, Show::Warnings)?;
    Ok(folder)
}
