//! A plain C program loads a library of ours without any other library.

use std::path::Path;
use std::process::Command;

fn compile(source: &str, program: &str) -> std::path::PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    let status = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(tests.join("c").join(source))
        .arg("-I")
        .arg(tests.join("../build-support/include"))
        .arg("-ldl")
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success());
    program
}

#[test]
fn calls_errors_and_globals_from_c() {
    // Cargo builds the library as a dependency of this test, next to it.
    let library = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    let output = Command::new(compile("host.c", "c_host")).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "TypeError: add(a: int, b: int): argument 'a': expected int, got str\nok\n");
}

/// The library has the feature `builtins`, with which it loads others; `tests/downstream` has a
/// library without it.
#[test]
fn a_library_with_builtins_loads_others_for_c() {
    let library = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    let objects = library.with_file_name("libobjects.so");
    let output = Command::new(compile("loader.c", "c_loader")).arg(library).arg(objects).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ffi.ModuleLoadFromFile: loaded\n");
}
