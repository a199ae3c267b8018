//! The paths of third-party libraries, which `cargo xtask test` installs and names in variables.

use std::path::{Path, PathBuf};

use crate::skip::skip;

/// The stock `libtvm_ffi.so`, in the folder `KERNPACK_TVM_FFI_LIB`. Without that variable, prints a
/// line and returns `None`.
///
/// # Panics
/// Panics on CI if the variable is not set.
pub fn stock_library() -> Option<PathBuf> {
    let folder = std::env::var_os("KERNPACK_TVM_FFI_LIB");
    if folder.is_none() {
        skip("set KERNPACK_TVM_FFI_LIB to the folder of the stock libtvm_ffi.so");
    }
    folder.map(|folder| Path::new(&folder).join("libtvm_ffi.so"))
}

/// A Python with Apache TVM: `KERNPACK_APACHE_TVM`, else the one in `target/venv-tvm`. If there is
/// none, prints a line and returns `None`.
///
/// # Panics
/// Panics on CI if there is none.
pub fn apache_tvm() -> Option<PathBuf> {
    python("KERNPACK_APACHE_TVM", "venv-tvm", "apache-tvm 0.27")
}

/// A Python with the stock package: `KERNPACK_PYTHON`, else the one in `target/venv`. If there is
/// none, prints a line and returns `None`.
///
/// # Panics
/// Panics on CI if there is none.
pub fn stock_python() -> Option<PathBuf> {
    python("KERNPACK_PYTHON", "venv", "apache-tvm-ffi")
}

fn python(variable: &str, folder: &str, package: &str) -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(folder).join("bin/python");
    let python = std::env::var_os(variable).map_or(installed, PathBuf::from);
    let found = python.exists();
    if !found {
        skip(format_args!("set {variable} to a Python with {package}"));
    }
    found.then_some(python)
}
