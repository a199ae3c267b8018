//! `cargo xtask asan`: the reference Python and C++ suites with our libtvm_ffi.so built under
//! AddressSanitizer, and with checks of arithmetic.
//!
//! The programs are not built with the sanitizer, so gcc's copy of its run-time library is loaded
//! before everything else. Code of others is not instrumented, but the sanitizer allocates every
//! block of memory in the process: blocks of ours, of Python, and blocks that the two pass to each
//! other.

use crate::Result;
use crate::conformance::{self, Run};
use crate::reports::Reports;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::path::{Path, PathBuf};

/// The only supported target.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Without rustc's own copy of the sanitizer's run-time library.
const RUSTFLAGS: &str = "-Zsanitizer=address -Zexternal-clangrt -Cforce-frame-pointers=yes";

/// A program that drops one reference too many, to check that the sanitizer reports it.
const MISTAKE: &str = "
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
class Bytes(ctypes.Structure):
    _fields_ = [('data', ctypes.c_char_p), ('size', ctypes.c_size_t)]
class Value(ctypes.Structure):
    _fields_ = [('type_index', ctypes.c_int32), ('small_len', ctypes.c_uint32), ('object', ctypes.c_void_p)]
text, value = Bytes(b'x' * 100, 100), Value()
assert library.TVMFFIStringFromByteArray(ctypes.byref(text), ctypes.byref(value)) == 0
for _ in range(2):
    library.TVMFFIObjectDecRef(ctypes.c_void_p(value.object))
";

/// Builds, checks that mistakes are reported, and runs the suites. `rest` is passed to
/// `cargo xtask conformance`.
pub(crate) fn run(rest: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let preload = preload(&workspace)?;
    let library = build(&workspace)?;
    let reports = Reports::new(&workspace, "asan/reports")?;
    let variables = [
        format!("LD_PRELOAD={preload}"),
        // Python intentionally keeps much memory until its end.
        format!(
            "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1:log_path={}",
            reports.folder().join("report").display()
        ),
        // Allocates each object of Python separately.
        "PYTHONMALLOC=malloc".to_string(),
        "PYTEST_PLUGINS=kernpack_preload".to_string(),
    ];
    see_a_mistake(&workspace, &library, &variables, &reports)?;

    let library = library.to_str().ok_or("the target folder's name is not UTF-8")?;
    let mut arguments = vec!["python", "cpp", "--library", library];
    arguments.extend(variables.iter().flat_map(|variable| ["--env", variable]));
    arguments.extend(rest);
    let outcome = conformance::run(&Run::parse(&arguments)?);
    reports.judge("AddressSanitizer")?;
    outcome
}

/// The sanitizer's run-time library, and that of C++, in which it looks up symbols at startup.
fn preload(workspace: &Workspace) -> Result<String> {
    let mut paths = Vec::new();
    for name in ["libasan.so", "libstdc++.so"] {
        let option = format!("-print-file-name={name}");
        let output = workspace.command("gcc").arg(&option).output();
        let output = output.map_err(|error| format!("cannot start gcc, whose libasan is needed: {error}"))?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        // gcc prints the bare name of a file that it does not have.
        let path = path.canonicalize().ok().filter(|path| path.is_absolute());
        let path = path.ok_or_else(|| format!("gcc has no {name}: install it (Debian: apt-get install gcc g++)"))?;
        paths.push(path.display().to_string());
    }
    Ok(paths.join(":"))
}

/// Builds our library in a folder of its own: optimized, but with all checks.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.folder("asan")?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "kernpack-capi", "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", &folder).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", RUSTFLAGS);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only").env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    step::run("build libtvm_ffi.so under AddressSanitizer", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&folder.join(TARGET).join("release"), "tvm_ffi"))
}

/// Checks that the sanitizer reports a mistake: otherwise every suite would pass.
fn see_a_mistake(workspace: &Workspace, library: &Path, variables: &[String], reports: &Reports) -> Result {
    let python = find_on_path("python3").ok_or("no python3 on PATH")?;
    let mut command = workspace.command(python);
    command.args(["-c", MISTAKE]).arg(library);
    command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
    let output = command.output()?;
    let report = reports.text()?;
    reports.forget()?;
    if !output.status.success() && report.contains("heap-use-after-free") {
        println!("AddressSanitizer sees a use after free");
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("asan: a use after free in libtvm_ffi.so was not reported: {} {}", said.trim(), report.trim()).into())
}
