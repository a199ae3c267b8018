//! The CUDA compiler: the one of this machine, else the wheels of `cuda-requirements.txt` in
//! `target/cuda`. Neither a GPU nor root is needed.

use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::env;
use std::fs;
use std::path::PathBuf;

const REQUIREMENTS: &str = include_str!("../cuda-requirements.txt");

/// The way in which a build finds nvcc.
pub(crate) enum Compiler {
    /// A build finds it by `NVCC` or PATH.
    Found,
    /// The folder to give as `CUDA_HOME`.
    Home(PathBuf),
    /// Not found; the text is the reason.
    Missing(String),
}

impl Compiler {
    /// The value for `CUDA_HOME`, if one is needed.
    pub(crate) fn home(&self) -> Option<&PathBuf> {
        match self {
            Compiler::Home(home) => Some(home),
            Compiler::Found | Compiler::Missing(_) => None,
        }
    }
}

/// Finds nvcc or installs it. Without it, images for GPUs are not built, which is an error only if
/// `KERNPACK_CUDA=require` is set.
pub(crate) fn prepare(workspace: &Workspace, python: &Python) -> Result<Compiler> {
    let policy = env::var("KERNPACK_CUDA").unwrap_or_default();
    if policy == "off" {
        return Ok(Compiler::Missing("KERNPACK_CUDA=off".to_string()));
    }
    if let Some(found) = find() {
        return Ok(found);
    }
    match install(workspace, python) {
        Ok(home) => Ok(Compiler::Home(home)),
        Err(error) if policy == "require" => Err(error),
        Err(error) => Ok(Compiler::Missing(error.to_string())),
    }
}

/// An nvcc that is already on this machine.
fn find() -> Option<Compiler> {
    if env::var_os("NVCC").is_some() {
        return Some(Compiler::Found);
    }
    let configured = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    if let Some(home) = configured.into_iter().find(|home| home.join("bin/nvcc").is_file()) {
        return Some(Compiler::Home(home));
    }
    if find_on_path("nvcc").is_some() {
        return Some(Compiler::Found);
    }
    let usual = PathBuf::from("/usr/local/cuda");
    usual.join("bin/nvcc").is_file().then_some(Compiler::Home(usual))
}

/// Installs the wheels, once per list.
fn install(workspace: &Workspace, python: &Python) -> Result<PathBuf> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Err(
            "there is no CUDA compiler wheel for this platform; install the CUDA toolkit and set CUDA_HOME".into()
        );
    }
    let folder = workspace.folder("cuda")?;
    let home = folder.join("nvidia/cu13");
    let stamp_file = folder.join("complete");
    if fs::read_to_string(&stamp_file).is_ok_and(|text| text == REQUIREMENTS) && home.join("bin/nvcc").is_file() {
        return Ok(home);
    }
    fs::remove_dir_all(&folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
    let mut command = workspace.command(python.interpreter());
    command
        .args([
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--only-binary=:all:",
            "--no-deps",
            "--target",
        ])
        .arg(&folder)
        .arg("-r")
        .arg(workspace.root().join("xtask/cuda-requirements.txt"));
    step::run("install the CUDA compiler into target/cuda", &mut command, Show::Warnings)?;
    if !home.join("bin/nvcc").is_file() {
        return Err(format!(
            "the CUDA compiler wheels were installed, but {} is not there",
            home.join("bin/nvcc").display()
        )
        .into());
    }
    fs::write(&stamp_file, REQUIREMENTS).map_err(|error| format!("cannot write {}: {error}", stamp_file.display()))?;
    Ok(home)
}
