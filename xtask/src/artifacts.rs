//! What the builds leave behind: the example's library and host program, and the tests' library.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::shared_library;
use std::path::PathBuf;

/// The built example.
pub(crate) struct Imagekit {
    /// `libimagekit.so`, which every host loads.
    pub(crate) library: PathBuf,
    /// The Rust host program.
    pub(crate) host: PathBuf,
}

impl Imagekit {
    /// Builds the library and its Rust host with optimization.
    pub(crate) fn build(environment: &Environment) -> Result<Self> {
        let mut cargo = environment.cargo("build");
        cargo.args(["--release", "--package", "imagekit", "--package", "imagekit-host"]);
        step::run("build examples/imagekit and its Rust host", &mut cargo, Show::Warnings)?;
        let folder = environment.workspace.cargo_target().join("release");
        let built = Imagekit { library: shared_library(&folder, "imagekit"), host: folder.join("imagekit-host") };
        for file in [&built.library, &built.host] {
            if !file.is_file() {
                return Err(format!("the build of examples/imagekit left no {}", file.display()).into());
            }
        }
        Ok(built)
    }
}

/// Builds one of the libraries that tests load, with optimization, and gives its path.
pub(crate) fn build_test_library(environment: &Environment, package: &str) -> Result<PathBuf> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", package]);
    step::run(&format!("build tests/{package}-lib"), &mut cargo, Show::Warnings)?;
    Ok(shared_library(&environment.workspace.cargo_target().join("release"), package))
}

/// Builds the library of tests/gpu with optimization and gives its path.
pub(crate) fn build_gpu_kernels(environment: &Environment) -> Result<PathBuf> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", "kernpack-gpu-tests"]);
    step::run("build tests/gpu", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&environment.workspace.cargo_target().join("release"), "gpu_kernels"))
}

/// Builds our `libtvm_ffi.so` with optimization and gives its path.
pub(crate) fn build_libtvm_ffi(environment: &Environment) -> Result<PathBuf> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", "kernpack-capi"]);
    step::run("build libtvm_ffi.so", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&environment.workspace.cargo_target().join("release"), "tvm_ffi"))
}

/// Builds the two libraries of examples/extension with optimization and gives their paths: the one with expressions, and the one
/// that works on them.
pub(crate) fn build_extension(environment: &Environment) -> Result<[PathBuf; 2]> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", "expr", "--package", "extension"]);
    step::run("build examples/extension", &mut cargo, Show::Warnings)?;
    let folder = environment.workspace.cargo_target().join("release");
    Ok(["expr", "extension"].map(|name| shared_library(&folder, name)))
}

/// Builds the libraries of tests/decentralised with optimization and gives their folder.
pub(crate) fn build_decentralised(environment: &Environment) -> Result<PathBuf> {
    let mut cargo = environment.cargo("build");
    cargo.arg("--release").args(["clash", "forgetful", "left", "right"].iter().flat_map(|name| ["--package", name]));
    step::run("build tests/decentralised", &mut cargo, Show::Warnings)?;
    Ok(environment.workspace.cargo_target().join("release"))
}
