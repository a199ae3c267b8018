//! `cargo xtask ray`: runs the wheel of examples/ray on a Ray cluster of two nodes on this machine,
//! and kills a worker in the middle of its batch job. It is not part of other commands: Ray has 200
//! MB, and its nodes take half a minute to start.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::Workspace;

/// The environment with Ray.
const RAY: Recipe = Recipe {
    folder: "venv-ray",
    list: "xtask/requirements-ray.txt",
    packages: include_str!("../requirements-ray.txt"),
};

/// Makes the wheel, installs it beside Ray, and runs the job.
pub(crate) fn run() -> Result {
    let workspace = Workspace::find()?;
    let interpreter = python::environment(&workspace, &RAY)?;
    let mut cargo = workspace.cargo("build");
    step::run("build cargo kernpack", cargo.args(["--package", "kernpack-cli"]), Show::Warnings)?;
    let program = workspace.cargo_target().join(format!("debug/cargo-kernpack{}", std::env::consts::EXE_SUFFIX));
    let wheels = workspace.folder("wheels")?;
    let mut make = workspace.command(&program);
    make.args(["wheel", "--package", "batchkit", "--profile", "dev", "--out"]).arg(&wheels);
    step::run("make the wheel of examples/ray", &mut make, Show::Warnings)?;
    let mut install = workspace.command(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"]);
    install.arg(wheel(&wheels)?);
    step::run("install it", &mut install, Show::Warnings)?;
    let mut cluster = workspace.command(&interpreter);
    cluster.arg("examples/ray/cluster.py").env("PYTHONDONTWRITEBYTECODE", "1");
    step::run("a batch job on two Ray nodes", &mut cluster, Show::Lines)?;
    Ok(())
}

/// The path of the built wheel.
fn wheel(folder: &Path) -> Result<PathBuf> {
    let files = std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut wheels: Vec<PathBuf> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("batchkit-")))
        .collect();
    wheels.sort();
    wheels.pop().ok_or_else(|| format!("no wheel of batchkit in {}", folder.display()).into())
}
