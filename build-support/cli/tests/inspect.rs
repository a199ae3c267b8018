//! The program on real libraries: Kernpack's, C++'s and Apache TVM's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// The build script makes every program of this crate a host, which contains this crate.
use kernpack as _;
use kernpack_skip::skip;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A cdylib that cargo built next to these tests.
fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().join(format!("lib{name}.so"))
}

fn run(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
    command.args(["kernpack", "inspect"]).args(arguments).arg(file).output().unwrap()
}

#[track_caller]
fn inspect(arguments: &[&str], file: &Path) -> String {
    let output = run(arguments, file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(arguments: &[&str], file: &Path) -> serde_json::Value {
    serde_json::from_str(&inspect(&[&["--json"], arguments].concat(), file)).unwrap()
}

/// The text without its first lines, which contain sizes and the file's path.
fn body(text: &str) -> &str {
    text.split_once("\n\n").unwrap().1
}

#[test]
fn text_of_a_small_crate() {
    let file = built("left");
    assert_eq!(body(&inspect(&[], &file)), include_str!("left.txt"));
    assert_eq!(body(&inspect(&["--load"], &file)), include_str!("left-loaded.txt"));
}

#[test]
fn the_conversions_library() {
    let file = built("conversions");
    let read = json(&[], &file);
    assert_eq!((&read["schema"], &read["made_by"]), (&1.into(), &"Kernpack".into()));
    let functions = read["functions"].as_array().unwrap();
    assert!(functions.len() > 50);
    assert!(read["loaded"].is_null() && functions.iter().all(|function| function["signature"].is_null()));
    let loaded = json(&["--load"], &file);
    assert!(loaded["loaded"]["problem"].is_null());
    let echo = loaded["functions"].as_array().unwrap().iter().find(|function| function["name"] == "echo_u8");
    assert_eq!(echo.unwrap()["signature"], "(x: int) -> int");
}

#[test]
fn imagekit() {
    let file = built("imagekit");
    let text = inspect(&["--load"], &file);
    assert!(text.contains("  imagekit.to_gray(rgb: Tensor) -> Tensor\n      Converts an RGB image to gray"), "{text}");
    assert!(text.contains("  imagekit.Histogram : imagekit.Statistics\n"), "{text}");
    assert!(text.contains("    mean: float\n"), "{text}");
}

#[test]
fn a_stock_cpp_library() {
    let lib = workspace().join("target/venv/lib");
    let versions = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let mut files = versions.map(|version| version.path().join("site-packages/tvm_ffi/lib/libtvm_ffi_testing.so"));
    let Some(file) = files.find(|file| file.exists()) else {
        return skip("there is no tvm_ffi in target/venv");
    };
    let text = inspect(&["--load"], &file);
    assert!(text.contains("made by C++ (linked to libtvm_ffi.so)"), "{text}");
    assert!(text.contains("  testing_dll_test_add_with_docstring(int, int) -> int\n      Add two integers"), "{text}");
    assert!(text.contains("    v_map_str_int: Map[str, int]\n"), "{text}");
}

#[test]
fn a_library_of_apache_tvm() {
    let python = ["target/venv-tvm/bin/python"].map(|place| workspace().join(place));
    let Some(python) = python.iter().find(|python| python.exists()) else {
        return skip("there is no Apache TVM in target/venv-tvm");
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("addone.so");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_addone.py");
    assert!(Command::new(python).arg(script).arg(&file).status().unwrap().success());
    let tree = body(&inspect(&[], &file)).split_once("import tree").unwrap().1.to_owned();
    assert!(
        tree.contains("  0 the library itself\n    1 opencl cl, ")
            && tree.contains("of code: OpenCL C source\n        kernel addone_kernel(pointer, pointer) over blockIdx.x, threadIdx.x\n"),
        "{tree}"
    );
    let (source, picture) = (folder.join("addone.cl"), folder.join("addone.svg"));
    inspect(&["--extract", "opencl", "-o", source.to_str().unwrap()], &file);
    assert!(std::fs::read_to_string(source).unwrap().contains("__kernel void addone_kernel("));
    inspect(&["--svg", picture.to_str().unwrap()], &file);
    assert_eq!(std::fs::read_to_string(picture).unwrap().matches("<rect").count(), 2);
}

#[test]
fn files_that_are_no_libraries() {
    #[track_caller]
    fn check(arguments: &[&str], file: &str, problem: &str) {
        let output = run(arguments, Path::new(file));
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("error: {problem}\n"));
    }
    check(&[], "Cargo.toml", "Cargo.toml: not a shared library (no ELF header)");
    check(&[], "/dev/zero", "cannot read /dev/zero: not a regular file");
    check(&[], "/nowhere.so", "cannot read /nowhere.so: No such file or directory (os error 2)");
    let left = built("left");
    let left = left.to_str().unwrap();
    check(&["--extract", "cuda", "-o", "/dev/null"], left, &format!("{left}: it has no import tree, so no images"));
}

#[test]
fn an_option_with_its_value_in_one_word() {
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left.svg");
    inspect(&[&format!("--svg={}", picture.display())], &built("left"));
    assert_eq!(std::fs::read_to_string(picture).unwrap().matches("<rect").count(), 1);
}

#[test]
fn command_lines_that_are_wrong() {
    for (arguments, problem) in [
        (&["look", "a.so"][..], "unknown command `look`; see cargo kernpack --help"),
        (&["inspect", "--lod", "a.so"], "unknown option `--lod`; see cargo kernpack inspect --help"),
        (&["inspect", "a.so", "--svg"], "missing value for option `--svg`; see cargo kernpack inspect --help"),
        (&["inspect"], "missing argument FILE; see cargo kernpack inspect --help"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kernpack"));
        let output = command.arg("kernpack").args(arguments).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("error: {problem}\n"));
    }
}

/// A constructor that ends its process. Reading does not load the library, and loading happens in
/// another process.
#[test]
fn reading_runs_nothing() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, file) = (folder.join("killer.c"), folder.join("killer.so"));
    std::fs::write(&source, "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }\nint __tvm_ffi_f(void) { return 0; }\n").unwrap();
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&file).arg(source).status().unwrap().success());
    assert!(inspect(&[], &file).contains("functions (1)\n  f\n"));
    let output = run(&["--load"], &file);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("killer.so ended its process: signal: 6"), "{message}");
}
