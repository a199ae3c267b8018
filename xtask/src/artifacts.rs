//! Outputs of builds: the example's library and host program, and the tests' library.

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

/// Builds the library of tests/gpu with optimization, and returns its path.
pub(crate) fn build_gpu_kernels(environment: &Environment) -> Result<PathBuf> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", "kernpack-gpu-tests"]);
    step::run("build tests/gpu", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&environment.workspace.cargo_target().join("release"), "gpu_kernels"))
}

/// The packages of the libraries that tests load, and of the Rust host.
const LOADED_BY_TESTS: &[&str] = &[
    "imagekit",
    "imagekit-host",
    "expr",
    "extension",
    "filetype",
    "kernpack-gpu-kit",
    "kernpack-gpu-tests",
    "python-rpc",
    "tensor-kernels",
    "conversions",
    "objects",
    "extmod",
    "clash",
    "forgetful",
    "left",
    "right",
];

/// Builds the libraries that tests load, and the programs of the kit for a machine with a GPU.
pub(crate) fn build_loaded_by_tests(environment: &Environment) -> Result {
    let packages = LOADED_BY_TESTS.iter().flat_map(|package| ["--package", package]);
    let mut cargo = environment.cargo("build");
    step::run("build the libraries that tests load", cargo.arg("--release").args(packages), Show::Warnings)?;
    Ok(())
}

/// Builds the library of tests/python_extension, and the program that makes wheels of it; the
/// result is where they are, by variable.
pub(crate) fn build_for_extension(environment: &Environment) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut cargo = environment.cargo("build");
    cargo.args(["--package", "extmod", "--package", "kernpack-cli"]);
    step::run("build tests/extension-lib and cargo kernpack", &mut cargo, Show::Warnings)?;
    let target = environment.workspace.cargo_target();
    let folder = target.join("debug");
    Ok(vec![
        ("EXTMOD_LIBRARY", shared_library(&folder, "extmod")),
        ("CARGO_KERNPACK", folder.join(format!("cargo-kernpack{}", std::env::consts::EXE_SUFFIX))),
        ("CARGO_TARGET_DIR", target.to_path_buf()),
    ])
}

/// Builds every library that tests load, with optimization; the result is where they are, by the
/// variable that tells it to the tests.
///
/// One command builds all but two: separate commands would build the runtime once for each set of
/// its features. `libtvm_ffi.so` is built by itself, as it is shipped, and the compiler without
/// optimization.
pub(crate) fn build_for_tests(environment: &Environment) -> Result<Vec<(&'static str, PathBuf)>> {
    build_loaded_by_tests(environment)?;
    let mut cargo = environment.cargo("build");
    cargo.args(["--release", "--package", "kernpack-capi"]);
    step::run("build libtvm_ffi.so", &mut cargo, Show::Warnings)?;
    // Without optimization: the compiler is large, and the code that it generates is equally fast.
    // All libraries of the workspace with a test have the features of the workspace's tests, which
    // need the same compiler.
    let mut cargo = environment.cargo("build");
    cargo.args(["--workspace", "--lib", "--test", "new"]);
    step::run("build examples/python-compiler", &mut cargo, Show::Warnings)?;
    let target = environment.workspace.cargo_target();
    let folder = target.join("release");
    Ok(vec![
        ("EXPR_LIBRARY", shared_library(&folder, "expr")),
        ("EXTENSION_LIBRARY", shared_library(&folder, "extension")),
        ("FILETYPE_LIBRARY", shared_library(&folder, "filetype")),
        ("GPU_LIBRARY", shared_library(&folder, "gpu_kernels")),
        ("IMAGEKIT_LIBRARY", shared_library(&folder, "imagekit")),
        ("PYTHON_COMPILER_LIBRARY", shared_library(&target.join("debug"), "python_compiler")),
        ("PYTHON_RPC_LIBRARY", shared_library(&folder, "python_rpc")),
        ("TENSOR_KERNELS_LIBRARY", shared_library(&folder, "tensor_kernels")),
        ("CONVERSIONS_LIBRARY", shared_library(&folder, "conversions")),
        ("OBJECTS_LIBRARY", shared_library(&folder, "objects")),
        ("EXTMOD_LIBRARY", shared_library(&folder, "extmod")),
        ("DECENTRALISED_LIBRARIES", folder.clone()),
        ("KERNPACK_LIBTVM_FFI", shared_library(&folder, "tvm_ffi")),
    ])
}
