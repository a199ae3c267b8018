//! `cargo xtask gpu-kit`: builds `target/gpu-kit`, a folder that runs on a machine with a GPU
//! without Rust, cargo or a network. `gpu-kit --check` builds it and runs it here, against the
//! stand-in for the driver, with an empty environment and no network. `tests/gpu/README.md`
//! describes how to copy and run the kit.

mod check;
mod images;
mod wheels;

use crate::Result;
use crate::artifacts;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::fs;
use std::path::{Path, PathBuf};

/// The size limit of the kit. The checkout that is copied with it may have 64 MiB together with the
/// kit.
const MOST_BYTES: u64 = 48 << 20;

/// The sources of the kit, from the root.
const SOURCES: &str = "tests/gpu/kit";

/// The packages of the kit.
const PACKAGES: [&str; 3] = ["kernpack-gpu-kit", "kernpack-gpu-tests", "imagekit"];

/// A built kit.
struct Kit {
    folder: PathBuf,
}

/// Builds the kit, and runs it with `--check`.
pub(crate) fn run(arguments: &[&str]) -> Result {
    match arguments {
        [] => {
            let environment = Environment::prepare()?;
            let mut cargo = environment.cargo("build");
            cargo.arg("--release").args(PACKAGES.iter().flat_map(|package| ["--package", package]));
            // The kit contains the launch benchmark, so it is optimized; Cargo.toml leaves it
            // unoptimized for the check.
            cargo.args(["--config", "profile.release.package.kernpack-gpu-kit.opt-level=3"]);
            step::run("build the programs of the kit", &mut cargo, Show::Warnings)?;
            let kit = Kit::assemble(&environment)?;
            println!("target/gpu-kit is ready: {}", kit.weight()?);
            Ok(())
        }
        ["--check"] => check(&Environment::prepare()?),
        _ => {
            Err("gpu-kit: expected nothing or --check; tests/gpu/README.md says how the kit is carried and run".into())
        }
    }
}

/// Builds the kit with the command that builds the libraries of the tests, so that nothing is
/// compiled twice, and runs it here.
pub(crate) fn check(environment: &Environment) -> Result {
    if let Some(why) = environment.cuda_missing() {
        return Err(format!("gpu-kit: the images of the kit need a CUDA compiler: {why}").into());
    }
    artifacts::build_loaded_by_tests(environment)?;
    let kit = Kit::assemble(environment)?;
    println!("target/gpu-kit: {}", kit.weight()?);
    check::run(environment, &kit.folder)
}

impl Kit {
    /// Assembles the kit from the outputs of cargo, built with optimization.
    fn assemble(environment: &Environment) -> Result<Self> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("gpu-kit: the machine with a GPU runs x86-64 Linux, and the kit is built for the machine that builds it".into());
        }
        let workspace = &environment.workspace;
        let folder = workspace.root().join("target/gpu-kit");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
        }
        let sources = workspace.root().join(SOURCES);
        for name in ["bin", "lib", "images", "steps", "wheels"] {
            let place = folder.join(name);
            fs::create_dir_all(&place).map_err(|error| format!("cannot make {}: {error}", place.display()))?;
        }
        for name in ["run.py", "steps.json"] {
            copy(&sources.join(name), &folder.join(name))?;
        }
        for entry in fs::read_dir(sources.join("steps"))? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|extension| extension == "py") {
                copy(&entry.path(), &folder.join("steps").join(entry.file_name()))?;
            }
        }
        let built = workspace.cargo_target().join("release");
        for program in ["gpu-kit", "gpu-kit-launch-cost"] {
            stripped(workspace, &built.join(program), &folder.join("bin").join(program))?;
        }
        // Python imports a library by the name of its file.
        stripped(workspace, &shared_library(&built, "gpu_kernels"), &folder.join("lib/gpu_kernels.so"))?;
        stripped(workspace, &shared_library(&built, "imagekit"), &folder.join("lib/libimagekit.so"))?;
        images::make(environment, &folder)?;
        wheels::fetch(environment, &folder.join("wheels"))?;
        let kit = Kit { folder };
        let bytes = size(&kit.folder)?;
        if bytes > MOST_BYTES {
            return Err(format!("gpu-kit: {}: at most {} MiB are allowed", kit.weight()?, MOST_BYTES >> 20).into());
        }
        Ok(kit)
    }

    /// The size of the kit and of each of its folders, as text.
    fn weight(&self) -> Result<String> {
        let mut parts = Vec::new();
        for name in ["bin", "lib", "images", "wheels"] {
            parts.push(format!("{name} {:.1}", mebibytes(size(&self.folder.join(name))?)));
        }
        Ok(format!("{:.1} MiB ({})", mebibytes(size(&self.folder)?), parts.join(", ")))
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The bytes of all files of a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

fn copy(from: &Path, to: &Path) -> Result {
    fs::copy(from, to).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

/// Copies a program or a library without its symbol table.
fn stripped(workspace: &Workspace, from: &Path, to: &Path) -> Result {
    copy(from, to)?;
    let mut strip = workspace.command("strip");
    strip.arg("--strip-unneeded").arg(to);
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    step::run(&format!("strip {name}"), &mut strip, Show::Warnings)?;
    Ok(())
}
