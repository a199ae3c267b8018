//! Links the libLLVM that kernpack-llvm-find finds.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;

use kernpack_llvm_find::{PREFIX_VARIABLES, Process, find};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in ["RUSTC", "DOCS_RS"].iter().chain(PREFIX_VARIABLES) {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-check-cfg=cfg(kernpack_llvm_switch)");
    // Documentation is built without linking.
    if env::var_os("DOCS_RS").is_some() {
        set("unknown", Path::new(""), "");
        return;
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.to_owned());
    match find(&Process, &arch) {
        Ok(library) => {
            println!("cargo::rerun-if-changed={}", library.path.display());
            let Some(file) = library.path.file_name() else { return };
            println!("cargo::rustc-link-search=native={}", findable(&library.path, file.as_ref()).display());
            println!("cargo::rustc-link-lib=dylib:+verbatim={}", file.display());
            if library.has_switch {
                println!("cargo::rustc-cfg=kernpack_llvm_switch");
            }
            let warning = library.warning().unwrap_or_default();
            set(&library.version, &library.path, &warning);
        }
        Err(problems) => {
            eprintln!("error: kernpack-llvm-link {problems}");
            exit(1);
        }
    }
}

/// Sets the constants of the library.
fn set(version: &str, path: &Path, warning: &str) {
    println!("cargo::rustc-env=KERNPACK_LLVM_VERSION={version}");
    println!("cargo::rustc-env=KERNPACK_LLVM_LIBRARY={}", path.display());
    println!("cargo::rustc-env=KERNPACK_LLVM_WARNING={warning}");
}

/// Creates a folder in `OUT_DIR` with a link to the library. Programs that cargo runs (build
/// scripts, tests) find libraries in link search folders below its target folder. The toolchain's
/// own folder is only found when rustup's cargo is used.
fn findable(library: &Path, file: &Path) -> PathBuf {
    let own = library.parent().unwrap_or(Path::new("")).to_owned();
    let Some(folder) = env::var_os("OUT_DIR").map(|out| PathBuf::from(out).join("lib")) else { return own };
    let link = folder.join(file);
    let _ = fs::remove_file(&link);
    match fs::create_dir_all(&folder).and_then(|()| link_to(library, &link)) {
        Ok(()) => folder,
        Err(_) => own,
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
