use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kernpack_formats::abi::ApiTable;
use kernpack_formats::abi::cpp_names;

use crate::cargo::environment::Environment;
use crate::{Error, Result};

/// Lets the programs of this package load every library: they export the C functions of the TVM
/// FFI, bound to the kernpack that they link, to the libraries that they load. One line in
/// `build.rs`:
///
/// ```no_run
/// // build.rs
/// kernpack_build::export_abi();
/// ```
///
/// `kernpack::Module::load` loads Kernpack's own libraries without this. It is for libraries that
/// call `TVMFFI...` functions by name: those that Apache TVM exports, and those that C++ compilers
/// build with the headers of `apache-tvm-ffi`, whether they are linked to `libtvm_ffi.so` or not.
/// The program replaces that file (it has its shared-object name), so the file need not be
/// installed.
///
/// It applies to every program of the package: binaries, examples, tests and benchmarks. If the
/// package also builds a `cdylib`, its unit tests are excluded, because cargo has no way to name
/// them. The package must depend on `kernpack`. GNU ld and lld can link such a program, on Linux.
/// With gold, libraries that were linked to `libtvm_ffi.so` still load the file.
///
/// A libtvm_ffi that is in the process before the program's first use of kernpack (by `LD_PRELOAD`,
/// for example) keeps working: the program then forwards calls to it. A libtvm_ffi that is loaded
/// later, as by Python's `import tvm_ffi` in an embedded interpreter, cannot work next to the
/// program's own implementation; preload it. A program that links libtvm_ffi itself does not need
/// this, and with it would not load that file, because the program replaces it.
///
/// Stops the build with a message if the functions cannot be exported.
pub fn export_abi() {
    match lines(&Environment::of_process()) {
        Ok(lines) => print!("{lines}"),
        Err(error) => {
            for problem in error.problems() {
                println!("cargo::error={problem}");
            }
        }
    }
}

/// cargo's instruction that applies to everything that is linked.
const EVERYTHING: &str = "rustc-link-arg";

/// Returns the lines to print for cargo.
fn lines(environment: &Environment) -> Result<String> {
    let os = environment.cargo("CARGO_CFG_TARGET_OS")?;
    let arch = environment.cargo("CARGO_CFG_TARGET_ARCH")?;
    let features = environment.cargo_optional("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if os != "linux" || !matches!(arch.as_str(), "x86_64" | "aarch64") {
        return Err(Error::new(format!(
            "kernpack_build::export_abi(): programs for {arch} {os} cannot offer the C functions; it works for Linux on x86_64 and aarch64"
        )));
    }
    if features.split(',').any(|feature| feature == "crt-static") {
        return Err(Error::new(
            "kernpack_build::export_abi(): a program with a static C library (target feature crt-static) cannot load libraries; build \
             without that feature",
        ));
    }
    let package = environment.cargo_path("CARGO_MANIFEST_DIR")?;
    // The files that `instructions` reads. Without any, cargo tracks all files of the package.
    let mut lines = String::new();
    let instructions = instructions(&package)?;
    if instructions == [EVERYTHING] {
        lines.push_str("cargo::rerun-if-changed=Cargo.toml\n");
    }
    for instruction in instructions {
        for argument in arguments() {
            let _ = writeln!(lines, "cargo::{instruction}=-Wl,{argument}");
        }
    }
    Ok(lines)
}

/// The functions that C code of Apache TVM calls by name, too. Other compiled code finds them in
/// variables.
const BACKEND: [&str; 4] =
    ["TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "TVMBackendParallelLaunch", "TVMBackendParallelBarrier"];

/// The linker options. kernpack has each function under its own name, and a program gives it the C
/// name.
fn arguments() -> impl Iterator<Item = String> {
    let names = ApiTable::NAMES.iter().chain(&BACKEND).map(|name| (*name, *name));
    let names = names.chain(cpp_names::NAMES.iter().map(|name| (*name, *name)));
    let symbols = names
        .chain([("__kernpack_exported_api_v1", "table"), ("__kernpack_exported_functions_v1", "functions")])
        .flat_map(|(exported, name)| {
            [
                format!("-u,__kernpack_host_{name}"),
                format!("--defsym={exported}=__kernpack_host_{name}"),
                format!("--export-dynamic-symbol={exported}"),
            ]
        });
    // Libraries that were linked to libtvm_ffi.so use the program in its place.
    symbols.chain(["-soname,libtvm_ffi.so".to_owned()])
}

/// Returns cargo's instructions that apply to the programs of the package, but not to a shared
/// library.
fn instructions(package: &Path) -> Result<Vec<&'static str>> {
    let path = package.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|error| {
        Error::new(format!("kernpack_build::export_abi(): {} cannot be read: {error}", path.display()))
    })?;
    if !manifest.contains("cdylib") {
        return Ok(vec![EVERYTHING]);
    }
    // An instruction for a kind of target that the package does not have is a cargo error.
    let kinds = [
        ("bin", "src/bin", "rustc-link-arg-bins"),
        ("example", "examples", "rustc-link-arg-examples"),
        ("test", "tests", "rustc-link-arg-tests"),
        ("bench", "benches", "rustc-link-arg-benches"),
    ];
    let mut found = Vec::new();
    for (kind, folder, instruction) in kinds {
        let folder = package.join(folder);
        let is_found_by_cargo =
            !says(&manifest, &format!("auto{kind}{}", if kind == "bench" { "es" } else { "s" }), "false");
        let main = kind == "bin" && package.join("src/main.rs").is_file();
        if says(&manifest, &format!("[[{kind}]]"), "") || is_found_by_cargo && (main || has_targets(&folder)) {
            found.push(instruction);
        }
    }
    Ok(found)
}

/// Returns true if the manifest has a line `key` or `key = value`.
fn says(manifest: &str, key: &str, value: &str) -> bool {
    manifest.lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_once('=') {
            Some((name, what)) => name.trim() == key && what.trim() == value,
            None => line == key && value.is_empty(),
        }
    })
}

/// Returns true if cargo finds targets in a folder: a Rust file, or a folder with a `main.rs`.
fn has_targets(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_target = |path: PathBuf| {
        if path.is_dir() {
            path.join("main.rs").is_file()
        } else {
            path.extension().is_some_and(|extension| extension == "rs")
        }
    };
    entries.map(|entry| entry.path()).any(is_target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(os: &str, features: &str, package: &Path) -> Environment {
        Environment::fake(&[
            ("CARGO_CFG_TARGET_OS", os),
            ("CARGO_CFG_TARGET_ARCH", "x86_64"),
            ("CARGO_CFG_TARGET_FEATURE", features),
            ("CARGO_MANIFEST_DIR", package.to_str().unwrap()),
        ])
    }

    fn package(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let package = std::env::temp_dir().join(format!("kernpack-build-host-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = package.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        package
    }

    /// Returns the instructions for a package with these files.
    fn instructions_for(name: &str, files: &[(&str, &str)]) -> Vec<&'static str> {
        let package = package(name, files);
        let found = instructions(&package).unwrap();
        fs::remove_dir_all(package).unwrap();
        found
    }

    #[test]
    fn what_reaches_programs_only() {
        assert_eq!(instructions_for("plain", &[("Cargo.toml", "[package]\n")]), ["rustc-link-arg"]);
        let library = "[lib]\ncrate-type = [\"cdylib\"]\n";
        assert!(instructions_for("library", &[("Cargo.toml", library)]).is_empty());
        let all = [
            ("Cargo.toml", library),
            ("src/main.rs", ""),
            ("examples/one/main.rs", ""),
            ("tests/one.rs", ""),
            ("tests/data/input.txt", ""),
            ("benches/one.rs", ""),
        ];
        assert_eq!(
            instructions_for("all", &all),
            ["rustc-link-arg-bins", "rustc-link-arg-examples", "rustc-link-arg-tests", "rustc-link-arg-benches"]
        );
        let told =
            format!("{library}[[bin]] # a program\npath = \"x.rs\"\n[package]\nautotests = false\nautobenches=false\n");
        let files =
            [("Cargo.toml", told.as_str()), ("tests/one.rs", ""), ("benches/one.rs", ""), ("examples/x.txt", "")];
        assert_eq!(instructions_for("told", &files), ["rustc-link-arg-bins"]);
    }

    #[test]
    fn every_function_is_exported() {
        let package = package("names", &[("Cargo.toml", "[package]\n")]);
        let lines = lines(&environment("linux", "fxsr,sse", &package)).unwrap();
        fs::remove_dir_all(package).unwrap();
        let count = |text: &str| lines.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count("rustc-link-arg=-Wl,--export-dynamic-symbol=TVMFFI"), 50);
        assert_eq!(count("rustc-link-arg=-Wl,--defsym=TVMFFI"), 50);
        assert_eq!(count("-Wl,-u,__kernpack_host_TVMFFI"), 50);
        assert_eq!(count("-Wl,--export-dynamic-symbol=TVMBackend"), 4);
        assert_eq!(count("-Wl,--export-dynamic-symbol=_Z"), cpp_names::NAMES.len());
        assert_eq!(count("-Wl,--defsym=__kernpack_exported_api_v1=__kernpack_host_table"), 1);
        assert_eq!(count("-Wl,-soname,libtvm_ffi.so"), 1);
    }

    #[test]
    fn what_cannot_be_done() {
        let message = |os, features| lines(&environment(os, features, Path::new("."))).unwrap_err().to_string();
        assert_eq!(
            message("windows", ""),
            "kernpack_build::export_abi(): programs for x86_64 windows cannot offer the C functions; it works for Linux on x86_64 and \
             aarch64"
        );
        assert_eq!(
            message("linux", "crt-static,fxsr"),
            "kernpack_build::export_abi(): a program with a static C library (target feature crt-static) cannot load libraries; build \
             without that feature"
        );
    }
}
