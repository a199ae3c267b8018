//! `cargo xtask asan`: the reference Python and C++ suites with our libtvm_ffi.so built under
//! AddressSanitizer, and with checks of arithmetic. `cargo xtask asan extension`: the tests of the
//! extension module that take memory away while it is used, with the module built so.
//!
//! The programs are not built with the sanitizer, so gcc's copy of its run-time library is loaded
//! before everything else. Code of others is not instrumented, but the sanitizer allocates every
//! block of memory in the process: blocks of ours, of Python, and blocks that the two pass to each
//! other.

use crate::Result;
use crate::conformance::{self, Run};
use crate::pytest;
use crate::python::Python;
use crate::reports::Reports;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path, shared_library};
use std::fs;
use std::path::{Path, PathBuf};

/// The only supported target.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The flags for AddressSanitizer without rustc's own copy of its run-time library.
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

/// A program that passes freed memory to the extension module.
const MISTAKE_OF_EXTENSION: &str = "
import ctypes, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import extmod
process = ctypes.CDLL(None)
process.malloc.restype, process.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
memory, extents = process.malloc(800), (ctypes.c_int64 * 1)(100)
float64 = 2 | 64 << 8 | 1 << 16
words = [1, 0, 0, 0, memory, 1, 1 | float64 << 32, ctypes.addressof(extents), 0, 0]
tensor = (ctypes.c_uint64 * len(words))(*words)
process.free(memory)
class Freed:
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **_):
        return new(ctypes.addressof(tensor), b'dltensor_versioned', None)
extmod.sum_of_elements(Freed())
";

/// The tests of the extension module that free memory while it is in use.
const TESTS_OF_EXTENSION: [&str; 5] =
    ["test_class_changes.py", "test_exchange.py", "test_hostile.py", "test_lent_memory.py", "test_shared.py"];

/// Programs of the same folder, with an argument after the module's folder: how many seconds
/// threads change the same values.
const PROGRAMS_OF_EXTENSION: [(&str, Option<&str>); 2] = [("class_changes.py", None), ("memory_threads.py", Some("5"))];

/// Builds, checks that mistakes are seen, and runs the suites. `rest` goes to
/// `cargo xtask conformance`.
pub(crate) fn run(rest: &[&str]) -> Result {
    let workspace = Workspace::find()?;
    let library = build(&workspace, "kernpack-capi", "tvm_ffi")?;
    let reports = Reports::new(&workspace, "asan/reports")?;
    let variables = variables(&workspace, &reports, "")?;
    see_a_mistake(&workspace, MISTAKE, &library, &variables, &reports)?;

    let library = library.to_str().ok_or("the target folder's name is not UTF-8")?;
    let mut arguments = vec!["python", "cpp", "--library", library];
    arguments.extend(variables.iter().flat_map(|variable| ["--env", variable]));
    arguments.extend(rest);
    let outcome = conformance::run(&Run::parse(&arguments)?);
    reports.judge("AddressSanitizer")?;
    outcome
}

/// Builds the extension module of the tests, checks that the sanitizer detects mistakes, and runs
/// the tests.
pub(crate) fn extension() -> Result {
    let workspace = Workspace::find()?;
    let python = Python::prepare(&workspace)?;
    let built = build(&workspace, "extmod", "extmod")?;
    // The file name that Python imports.
    let library = workspace.folder("asan/import")?.join("extmod.so");
    fs::copy(&built, &library).map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
    let reports = Reports::new(&workspace, "asan/reports-extension")?;
    // The stock libtvm_ffi.so frees memory of `operator new` with `free`.
    let variables = variables(&workspace, &reports, ":alloc_dealloc_mismatch=0")?;
    see_a_mistake(&workspace, MISTAKE_OF_EXTENSION, &library, &variables, &reports)?;

    let start = || {
        let mut command = workspace.command(python.interpreter());
        command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
        command.env("PYTHONPATH", workspace.root().join("tests/conformance/python"));
        command.env("EXTMOD_LIBRARY", &library).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let folder = Path::new("tests/python_extension");
    let mut tests = start();
    pytest::arguments(&mut tests).args(["-m", "not other_pythons"]);
    tests.args(TESTS_OF_EXTENSION.map(|file| folder.join(file)));
    let mut outcome = pytest::run("the extension module under AddressSanitizer", &mut tests);
    for (program, argument) in PROGRAMS_OF_EXTENSION {
        let mut command = start();
        command.arg(folder.join(program)).args(library.parent()).args(argument);
        let ran = step::run(&format!("{program} under AddressSanitizer"), &mut command, Show::Lines);
        outcome = outcome.and(ran.map(drop));
    }
    reports.judge("AddressSanitizer")?;
    outcome
}

/// The variables of every process that uses a library under AddressSanitizer; `more` are further
/// options of the sanitizer.
fn variables(workspace: &Workspace, reports: &Reports, more: &str) -> Result<[String; 4]> {
    Ok([
        format!("LD_PRELOAD={}", preload(workspace)?),
        // Python deliberately keeps much memory until it exits.
        format!(
            "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1{more}:log_path={}",
            reports.folder().join("report").display()
        ),
        // Allocates each Python object as a separate block.
        "PYTHONMALLOC=malloc".to_string(),
        "PYTEST_PLUGINS=kernpack_preload".to_string(),
    ])
}

/// Returns the paths of the sanitizer's run-time library and that of C++, in which the sanitizer
/// looks up symbols when it starts.
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

/// Builds a library in a separate target folder: optimized, but with debug assertions.
fn build(workspace: &Workspace, package: &str, library: &str) -> Result<PathBuf> {
    let folder = workspace.folder("asan")?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", package, "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", &folder).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", RUSTFLAGS);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only").env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    step::run(&format!("build lib{library}.so under AddressSanitizer"), &mut cargo, Show::Warnings)?;
    Ok(shared_library(&folder.join(TARGET).join("release"), library))
}

/// Checks that the sanitizer reports a mistake. With a sanitizer that does not work, every suite
/// would pass.
fn see_a_mistake(
    workspace: &Workspace,
    mistake: &str,
    library: &Path,
    variables: &[String],
    reports: &Reports,
) -> Result {
    let python = find_on_path("python3").ok_or("no python3 on PATH")?;
    let mut command = workspace.command(python);
    command.args(["-c", mistake]).arg(library);
    command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
    let output = command.output()?;
    let report = reports.text()?;
    reports.forget()?;
    if !output.status.success() && report.contains("heap-use-after-free") {
        println!("AddressSanitizer sees a use after free");
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let library = library.display();
    Err(format!("asan: a use after free in {library} was not reported: {} {}", said.trim(), report.trim()).into())
}
