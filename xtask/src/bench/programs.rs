//! Builds the libraries and the callers of `tests/bench`.

use crate::Result;
use crate::python::Python;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that `bench calls` starts or loads.
pub(crate) struct Programs {
    /// The library made with Kernpack.
    pub(crate) kernpack_library: PathBuf,
    /// The library made with the C++ headers.
    pub(crate) cpp_library: PathBuf,
    /// The library made with the tvm-ffi crate.
    pub(crate) crate_library: PathBuf,
    /// Bytes of a stripped library like imagekit without kernels, by the way it is built.
    pub(crate) sizes: Vec<(&'static str, u64)>,
    /// Our Rust caller.
    pub(crate) kernpack_caller: PathBuf,
    /// The C++ caller.
    pub(crate) cpp_caller: PathBuf,
    /// The tvm-ffi crate's Rust caller.
    pub(crate) crate_caller: PathBuf,
    /// The Python caller's script.
    pub(crate) python_caller: PathBuf,
}

impl Programs {
    /// Builds everything with optimization.
    pub(crate) fn build(workspace: &Workspace, python: &Python) -> Result<Self> {
        let sources = workspace.root().join("tests/bench");
        let (cpp_library, cpp_caller) = build_cpp(workspace, python, &sources.join("cpp"))?;
        let peer = build_cargo(workspace, python, &sources.join("crate-peer"), "bench-peer", "release", &[])?;
        let build_ours = |profile: &str, arguments: &[&str]| {
            build_cargo(workspace, python, &sources, "bench-ours", profile, arguments)
        };
        // One package at a time: cargo unifies the features of kernpack for packages that it builds
        // together.
        let weigh = |profile: &str, features: &[&str]| -> Result<u64> {
            let folder = build_ours(profile, &[&["--package", "kernpack-size-lib"], features].concat())?;
            Ok(std::fs::metadata(shared_library(&folder, "kernpack_size_lib"))?.len())
        };
        let sizes = vec![
            ("profile release", weigh("release", &[])?),
            ("profile release, without the feature `embedded`", weigh("release", &["--no-default-features"])?),
            ("profile ship", weigh("ship", &[])?),
            ("profile ship, without the feature `embedded`", weigh("ship", &["--no-default-features"])?),
        ];
        let ours = build_ours("release", &["--package", "kernpack-bench-lib", "--package", "kernpack-bench-caller"])?;
        Ok(Programs {
            kernpack_library: shared_library(&ours, "kernpack_bench_lib"),
            cpp_library,
            crate_library: shared_library(&peer, "crate_peer_lib"),
            sizes,
            kernpack_caller: ours.join("kernpack-bench-caller"),
            cpp_caller,
            crate_caller: peer.join("crate-peer-caller"),
            python_caller: sources.join("python/caller.py"),
        })
    }
}

/// Builds one of the cargo workspaces and returns the folder of its outputs.
pub(super) fn build_cargo(
    workspace: &Workspace,
    python: &Python,
    folder: &Path,
    target: &str,
    profile: &str,
    arguments: &[&str],
) -> Result<PathBuf> {
    build_cargo_with(workspace, python, folder, target, profile, arguments, &[])
}

/// The same, with variables for the build scripts.
pub(super) fn build_cargo_with(
    workspace: &Workspace,
    python: &Python,
    folder: &Path,
    target: &str,
    profile: &str,
    arguments: &[&str],
    variables: &[(&str, &Path)],
) -> Result<PathBuf> {
    let target = workspace.cargo_target().join(target);
    let mut cargo = workspace.cargo("build");
    cargo.args(["--profile", profile, "--manifest-path"]).arg(folder.join("Cargo.toml")).args(arguments);
    cargo.env("CARGO_TARGET_DIR", &target).envs(variables.iter().copied());
    // The peer's build script runs tvm-ffi-config, which is in the environment.
    let mut paths = vec![python.programs().to_path_buf()];
    paths.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    cargo.env("PATH", env::join_paths(paths)?);
    let name = folder.strip_prefix(workspace.root()).unwrap_or(folder);
    let name = format!("cargo build --profile {profile} {} in {}", arguments.join(" "), name.display());
    step::run(&name.replace("  ", " "), &mut cargo, Show::Warnings)?;
    Ok(target.join(profile))
}

/// Builds the C++ library and the C++ caller against the wheel's headers and its `libtvm_ffi`.
fn build_cpp(workspace: &Workspace, python: &Python, sources: &Path) -> Result<(PathBuf, PathBuf)> {
    let folder = workspace.folder("bench")?;
    let library = shared_library(&folder, "cpp_peer_lib");
    let caller = folder.join("cpp-peer-caller");
    compile_cpp(workspace, python, &sources.join("lib.cc"), &library, &["-fPIC", "-shared"])?;
    compile_cpp(workspace, python, &sources.join("caller.cc"), &caller, &[])?;
    Ok((library, caller))
}

/// Compiles a C++ file against the wheel's headers and its `libtvm_ffi`.
pub(super) fn compile_cpp(
    workspace: &Workspace,
    python: &Python,
    source: &Path,
    result: &Path,
    flags: &[&str],
) -> Result {
    let compiler = env::var_os("CXX")
        .map(PathBuf::from)
        .or_else(|| ["c++", "g++", "clang++"].into_iter().find_map(find_on_path))
        .ok_or("no C++ compiler on PATH: install one (Debian: apt-get install g++), or set CXX")?;
    let mut command: Command = workspace.command(&compiler);
    command.args(["-O3", "-std=c++17"]).args(flags).arg("-I").arg(python.tvm_ffi_include());
    command.arg(source).arg("-o").arg(result);
    command.arg("-L").arg(python.tvm_ffi_library_folder()).arg("-ltvm_ffi");
    command.arg(format!("-Wl,-rpath,{}", python.tvm_ffi_library_folder().display()));
    let name = source.strip_prefix(workspace.root()).unwrap_or(source);
    step::run(&format!("compile {}", name.display()), &mut command, Show::Warnings).map(drop)
}
