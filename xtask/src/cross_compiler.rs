//! Requirements of tests for 64-bit ARM: compilers, Rust's standard library, an emulator, and the
//! stock library built for it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::debian;
use crate::environment::Environment;
use crate::rust_target;
use crate::step::{self, Show};

/// Rust's name of the target.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Programs, and the package of Debian and Ubuntu that has them.
const PROGRAMS: [(&str, &str); 3] = [
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    ("qemu-aarch64", "qemu-user"),
];

/// The C library that the compilers link and that programs load under qemu.
const LIBC: &str = "libc6-dev-arm64-cross";

/// The oldest platform that the stock package has wheels for.
const PLATFORM: &str = "manylinux_2_28_aarch64";

/// Variables for tests, with paths of compilers and libraries.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Installs missing requirements, as far as possible here, and reports the others; the tests that
/// need them report so as well, and fail on CI.
pub(crate) fn prepare(environment: &Environment) -> Variables {
    let workspace = &environment.workspace;
    let mut variables = Variables::new();
    if let Err(error) = debian::install_missing(workspace, &PROGRAMS, &[LIBC]) {
        println!("64-bit ARM: no compilers, or no qemu: {error}");
    }
    match rust_target::prepare(environment, TARGET) {
        Ok(Some(flags)) => variables.push(("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flags)),
        Ok(None) => {}
        Err(error) => println!("64-bit ARM: no Rust standard library: {error}"),
    }
    match stock_library(environment) {
        Ok(folder) => variables.push(("KERNPACK_AARCH64_TVM_FFI_LIB", folder.into())),
        Err(error) => println!("64-bit ARM: no stock libtvm_ffi.so: {error}"),
    }
    variables
}

/// The folder of the stock `libtvm_ffi.so` for the target, from the wheel of the version that
/// `requirements.txt` names.
fn stock_library(environment: &Environment) -> Result<PathBuf> {
    let pinned = include_str!("../requirements.txt").lines().find(|line| line.starts_with("apache-tvm-ffi=="));
    let pinned = pinned.ok_or("xtask/requirements.txt pins no apache-tvm-ffi")?;
    let folder = environment.workspace.folder("aarch64/tvm-ffi")?;
    let (library, stamp) = (folder.join("tvm_ffi/lib"), folder.join("complete"));
    if fs::read_to_string(&stamp).is_ok_and(|text| text == pinned) && library.join("libtvm_ffi.so").is_file() {
        return Ok(library);
    }
    let python = environment.python.interpreter();
    let mut pip = environment.command(python);
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps"]);
    // The library in the wheel does not depend on Python.
    pip.args(["--only-binary=:all:", "--platform", PLATFORM, "--implementation", "cp", "--python-version", "3.11"]);
    pip.args(["--abi", "cp311", "--dest"]).arg(&folder).arg(pinned);
    step::run(&format!("pip download {pinned} for {PLATFORM}"), &mut pip, Show::Warnings)?;
    let wheel = newest_wheel(&folder)?;
    let mut unpack = environment.command(python);
    unpack.args(["-m", "zipfile", "-e"]).args([&wheel, &folder]);
    step::run(&format!("unpack {}", wheel.display()), &mut unpack, Show::Warnings)?;
    fs::write(&stamp, pinned).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(library)
}

fn newest_wheel(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheels = files.filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let newest = wheels.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.ok_or_else(|| format!("pip left no wheel in {}", folder.display()).into())
}
