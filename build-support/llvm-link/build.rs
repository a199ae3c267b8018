//! Finds libLLVM: in the sysroot of the rustc in use, else a system LLVM of the same major version.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const MAJOR: &str = "22";
const PREFIX_VARIABLE: &str = "LLVM_SYS_221_PREFIX";

/// A shared library to link, by folder and file name.
struct Library {
    folder: PathBuf,
    file: String,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in ["RUSTC", PREFIX_VARIABLE] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // An explicit prefix is an order: it is used or it is an error.
    let found = match env::var_os(PREFIX_VARIABLE) {
        Some(prefix) => in_prefix(Path::new(&prefix)).map_err(|problem| vec![problem]),
        None => in_rust_toolchain().or_else(|first| in_system().map_err(|second| vec![first, second])),
    };
    match found {
        Ok(library) => {
            let path = library.folder.join(&library.file);
            println!("cargo::rerun-if-changed={}", path.display());
            println!("cargo::rustc-link-search=native={}", findable(&library).display());
            println!("cargo::rustc-link-lib=dylib:+verbatim={}", library.file);
            println!("cargo::rustc-env=KERNPACK_LLVM_LIBRARY={}", path.display());
        }
        Err(problems) => {
            eprintln!("error: kernpack-llvm-link found no LLVM {MAJOR} to link\n");
            for problem in problems {
                eprintln!("  - {problem}");
            }
            eprintln!("\nDo one of these:");
            eprintln!(
                "  - build with the Rust toolchain that rustup installs: its libLLVM serves, nothing else is needed"
            );
            eprintln!("  - install LLVM {MAJOR} with its shared library (Debian, Ubuntu: llvm-{MAJOR}-dev)");
            eprintln!("  - set {PREFIX_VARIABLE} to the folder of an LLVM {MAJOR} that has lib/libLLVM.so");
            eprintln!(
                "  - do without LLVM kernels: kernpack-build = {{ version = \"...\", default-features = false }}"
            );
            exit(1);
        }
    }
}

/// A folder in `OUT_DIR` with a link to the library. Cargo lets programs that it runs (build scripts, tests) find libraries in
/// link search folders below its target folder; the toolchain's own folder is found only when rustup's cargo is used.
fn findable(library: &Library) -> PathBuf {
    let Some(folder) = env::var_os("OUT_DIR").map(|out| PathBuf::from(out).join("lib")) else {
        return library.folder.clone();
    };
    let link = folder.join(&library.file);
    let _ = fs::remove_file(&link);
    match fs::create_dir_all(&folder).and_then(|()| link_to(&library.folder.join(&library.file), &link)) {
        Ok(()) => folder,
        Err(_) => library.folder.clone(),
    }
}

#[cfg(unix)]
fn link_to(library: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(library, link)
}

#[cfg(not(unix))]
fn link_to(library: &Path, link: &Path) -> std::io::Result<()> {
    fs::copy(library, link).map(drop)
}

fn in_rust_toolchain() -> Result<Library, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = Path::new(&rustc);
    let version = output(Command::new(rustc).arg("-vV"))?;
    let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: ")).unwrap_or("unknown");
    if llvm.split('.').next() != Some(MAJOR) {
        return Err(format!("the Rust toolchain ({}) carries LLVM {llvm}, not {MAJOR}", rustc.display()));
    }
    let sysroot = output(Command::new(rustc).args(["--print", "sysroot"]))?;
    let folder = Path::new(sysroot.trim()).join("lib");
    // rustup: libLLVM.so.22.1-rust-1.95.0-stable, libLLVM.dylib on macOS.
    library_in(&folder).map_err(|problem| format!("the Rust toolchain has LLVM {llvm} inside, but {problem}"))
}

fn in_system() -> Result<Library, String> {
    let config = format!("llvm-config-{MAJOR}");
    let version = output(Command::new(&config).arg("--version"))?;
    if version.trim().split('.').next() != Some(MAJOR) {
        return Err(format!("{config} is of LLVM {}, not {MAJOR}", version.trim()));
    }
    let folder = output(Command::new(&config).arg("--libdir"))?;
    library_in(Path::new(folder.trim()))
}

fn in_prefix(prefix: &Path) -> Result<Library, String> {
    let config = prefix.join("bin").join(format!("llvm-config{}", env::consts::EXE_SUFFIX));
    let wrong = |problem: String| format!("{PREFIX_VARIABLE} is {}, but {problem}", prefix.display());
    let version = output(Command::new(&config).arg("--version")).map_err(wrong)?;
    if version.trim().split('.').next() != Some(MAJOR) {
        return Err(wrong(format!("that is LLVM {}, not {MAJOR}", version.trim())));
    }
    let folder = output(Command::new(&config).arg("--libdir")).map_err(wrong)?;
    library_in(Path::new(folder.trim())).map_err(wrong)
}

/// The LLVM shared library of a folder; the one whose name carries the major version if there are several.
fn library_in(folder: &Path) -> Result<Library, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{} cannot be listed: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            name == "libLLVM.dylib"
                || name == "libLLVM.so"
                || name == &format!("libLLVM-{MAJOR}.so")
                || name.starts_with(&format!("libLLVM.so.{MAJOR}."))
        })
        .collect();
    names.sort_by_key(|name| (!name.contains(MAJOR), name.len(), name.clone()));
    match names.into_iter().next() {
        Some(file) => Ok(Library { folder: folder.to_owned(), file }),
        None => Err(format!("{} has no libLLVM shared library", folder.display())),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            Err(format!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}
