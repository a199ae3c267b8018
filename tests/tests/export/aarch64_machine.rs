//! A 64-bit ARM machine emulated on this one: the workspace's libraries and programs, built for it
//! as a user builds them, and run by qemu.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kernpack_tests::skip::{skip, skip_anywhere};

use kernpack_tests::headers;

/// Rust's name of the target.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The prefix of Debian's and Ubuntu's compilers for the target, in front of `gcc`, `g++`, `nm`,
/// ...
pub(crate) const PREFIX: &str = "aarch64-linux-gnu-";

/// The command that runs its programs. The folder has the dynamic linker and the C library of the
/// compiler's packages.
const EMULATOR: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// Checks that a program can be run.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns whether rustc has the standard library for the target, also if
/// `CARGO_TARGET_..._RUSTFLAGS` provides it.
fn has_standard_library() -> bool {
    let flags = std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS").unwrap_or_default();
    let mut rustc = Command::new("rustc");
    rustc.args(flags.split_whitespace()).args(["--print", "target-libdir", "--target", TARGET]);
    let folder = rustc.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let mut entries = folder.ok().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

/// The programs that this machine lacks, and how to install them; empty if nothing is missing.
fn missing() -> String {
    let mut missing = Vec::new();
    if !has_standard_library() {
        missing.push("the Rust standard library for it (rustup target add aarch64-unknown-linux-gnu)");
    }
    if !has("aarch64-linux-gnu-gcc") || !has("aarch64-linux-gnu-g++") {
        missing.push("compilers (Debian and Ubuntu: apt-get install g++-aarch64-linux-gnu)");
    }
    if !has("qemu-aarch64") {
        missing.push("what runs its programs (Debian and Ubuntu: apt-get install qemu-user)");
    }
    missing.join(", ")
}

/// Returns whether programs for 64-bit ARM can be built and run here; if not, prints a line with
/// the reason.
pub(crate) fn is_there() -> bool {
    static MISSING: OnceLock<String> = OnceLock::new();
    if cfg!(target_arch = "aarch64") {
        skip_anywhere("this machine is one of 64-bit ARM: the other tests are the tests of it");
        return false;
    }
    let missing = MISSING.get_or_init(missing);
    if !missing.is_empty() {
        skip(format_args!("64-bit ARM under qemu needs {missing}"));
    }
    missing.is_empty()
}

/// cargo, with the target folder of the tests, and with the compilers for the target.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    describe(&mut cargo);
    cargo
}

/// Sets the linker, as a user's `.cargo/config.toml` does, and the target folder, so that the
/// tests' own build is reused.
pub(crate) fn describe(command: &mut Command) {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(3).unwrap();
    command.env("CARGO_TARGET_DIR", folder);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", format!("{PREFIX}gcc"));
    // cargo's value for tests contains folders with libraries of this machine.
    command.env_remove("LD_LIBRARY_PATH");
}

/// The folder with all files that are built for 64-bit ARM: libraries, programs and, in `deps`, the
/// tests.
pub(crate) fn programs() -> Option<&'static Path> {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    if !is_there() {
        return None;
    }
    let programs = PROGRAMS.get_or_init(|| {
        let mut build = cargo(&["build", "--target", TARGET, "--lib", "--bins", "--test", "guest"]);
        for package in PACKAGES {
            build.args(["--package", package]);
        }
        headers::run(&mut build);
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(3).unwrap().join(TARGET).join("debug")
    });
    Some(programs)
}

/// The packages that are built. One command, so that the runtime is built once.
const PACKAGES: [&str; 6] =
    ["conversions", "imagekit", "kernpack-aarch64", "kernpack-capi", "kernpack-loading-host", "objects"];

/// A command for 64-bit ARM with these variables, which the emulator itself does not get.
pub(crate) fn run(program: impl AsRef<OsStr>, variables: &[(&str, &OsStr)]) -> Command {
    let mut command = Command::new(EMULATOR[0]);
    command.args(&EMULATOR[1..]).env_remove("LD_LIBRARY_PATH");
    for (name, value) in variables {
        let mut setting = std::ffi::OsString::from(name);
        setting.push("=");
        setting.push(value);
        command.arg("-E").arg(setting);
    }
    command.arg(program);
    command
}

/// The newest test program in `deps`; cargo adds a hash to its name.
pub(crate) fn guest(programs: &Path) -> PathBuf {
    let entries = std::fs::read_dir(programs.join("deps")).unwrap().flatten().map(|entry| entry.path());
    let is_test = |path: &PathBuf| {
        path.extension().is_none() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("guest-"))
    };
    let newest = entries.filter(is_test).max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.expect("cargo has built it")
}

/// The stock `libtvm_ffi.so` for 64-bit ARM; without it, prints a line and returns `None`.
pub(crate) fn stock_library() -> Option<PathBuf> {
    let folder = std::env::var_os("KERNPACK_AARCH64_TVM_FFI_LIB");
    if folder.is_none() {
        skip(
            "KERNPACK_AARCH64_TVM_FFI_LIB does not say where the stock libtvm_ffi.so for 64-bit ARM is (cargo xtask test does)",
        );
    }
    folder.map(|folder| Path::new(&folder).join("libtvm_ffi.so"))
}
