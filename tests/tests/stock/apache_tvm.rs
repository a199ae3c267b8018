//! Calls in both directions between Kernpack and Apache TVM 0.27: libraries that TVM exports
//! (`apache-tvm/export.py`) run in Rust programs without any file of Apache TVM
//! (`apache-tvm/host`), and our libraries run in its processes (`apache-tvm/load.py`).
//!
//! `cargo xtask test` installs the requirements: `KERNPACK_APACHE_TVM` is a Python with the package
//! `apache-tvm`, `KERNPACK_TVM_FFI_PINNED` a folder with the version of `tvm_ffi` that it pins.
//! Without the variables, the tests look in `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use kernpack_tests::beside::cargo_build_programs;
use kernpack_tests::headers;
use kernpack_tests::skip::{skip, skip_anywhere};
use kernpack_tests::stock::apache_tvm;

const TESTS: &str = env!("CARGO_MANIFEST_DIR");

/// Files for which this build of TVM may lack a compiler.
const OPTIONAL: [&str; 2] = ["vulkan.so", "rocm.so"];

/// The files that TVM exports into a folder of this name, without those that this build of it
/// cannot create.
fn export(folder: &str) -> Option<(PathBuf, Vec<String>)> {
    let folder = (apache_tvm()?, headers::scratch_dir(folder));
    let script = Path::new(TESTS).join("apache-tvm/export.py");
    let output = headers::run(Command::new(&folder.0).arg(script).arg(&folder.1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("skipped: ") {
            Some(why) if OPTIONAL.iter().any(|file| why.starts_with(file)) => {
                skip_anywhere(format_args!("Apache TVM: {why}"))
            }
            Some(why) => panic!("Apache TVM did not export {why}"),
            None if line.ends_with(".so") || line.ends_with(".a") => files.push(line.to_owned()),
            None => {}
        }
    }
    Some((folder.1, files))
}

/// Builds the programs of `apache-tvm/host` with the profile of the tests, and returns their
/// folder.
fn build(variables: &[(&str, &Path)]) -> PathBuf {
    let (mut cargo, folder) = cargo_build_programs(&["kernpack-apache-tvm-host"]);
    headers::run(cargo.envs(variables.iter().copied()));
    folder
}

#[test]
fn what_tvm_exports_runs_without_it() {
    let Some((folder, files)) = export("apache_tvm") else { return };
    let (libraries, archives): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.ends_with(".so"));
    assert!(libraries.len() >= 10 && archives == ["system.a"], "{files:?}");

    // One process for all files, then one for each.
    let programs = build(&[("KERNPACK_TEST_SYSTEM_LIBRARY", &folder.join("system.a"))]);
    let run = |files: &[&String]| {
        let mut host = Command::new(programs.join("kernpack-apache-tvm-host"));
        // cargo's value contains folders with a libtvm_ffi.so.
        host.env_remove("LD_LIBRARY_PATH").arg(&folder).args(files);
        let output = headers::run(&mut host);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.matches("all checks passed").count(), files.len(), "{text}");
    };
    run(&libraries);
    libraries.iter().for_each(|file| run(&[file]));

    let output = headers::run(Command::new(programs.join("system")).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(output.stdout, b"all checks passed\n");
}

#[test]
fn our_libraries_run_in_its_process() {
    let Some(python) = apache_tvm() else { return };
    let ours = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    let imagekit = std::env::var_os("IMAGEKIT_LIBRARY").map(PathBuf::from);
    if imagekit.is_none() {
        skip("imagekit under Apache TVM: set IMAGEKIT_LIBRARY to the path of libimagekit.so");
    }
    let libraries: Vec<PathBuf> = [ours].into_iter().chain(imagekit).collect();
    let load = |packages: Option<&Path>, version: &str| {
        for order in ["tvm-first", "library-first"] {
            let mut script = Command::new(&python);
            script.arg(Path::new(TESTS).join("apache-tvm/load.py")).arg(order).args(&libraries);
            script.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("LD_LIBRARY_PATH");
            if let Some(packages) = packages {
                script.env("PYTHONPATH", packages);
            }
            let text = String::from_utf8(headers::run(&mut script).stdout).unwrap();
            assert_eq!(text.matches(": ok\n").count(), libraries.len(), "{text}");
            assert!(text.contains(&format!("tvm_ffi {version}")), "{order}: {text}");
        }
    };
    load(None, "0.1.15");
    let named = std::env::var_os("KERNPACK_TVM_FFI_PINNED").map(PathBuf::from);
    let lib = Path::new(TESTS).join("../target/venv-tvm-ffi-pinned/lib");
    let found = std::fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.path().join("site-packages"));
    match named.into_iter().chain(found).find(|folder| folder.join("tvm_ffi").is_dir()) {
        Some(packages) => load(Some(&packages), "0.1.14"),
        None => skip("under apache-tvm-ffi 0.1.14: set KERNPACK_TVM_FFI_PINNED to a folder with it"),
    }
}
