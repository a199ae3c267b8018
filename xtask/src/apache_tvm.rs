//! Apache TVM in a Python environment of its own, for examples/extension and for the tests of calls
//! in both directions between Apache TVM and Kernpack.

use crate::Result;
use crate::python::{self, Recipe};
use crate::workspace::Workspace;
use std::path::PathBuf;

/// The environment. The wheel of apache-tvm has 100 MB, and some machines have no wheel: callers
/// continue without it.
const APACHE_TVM: Recipe = Recipe {
    folder: "venv-tvm",
    list: "xtask/requirements-tvm.txt",
    packages: include_str!("../requirements-tvm.txt"),
};

/// The interpreter of an environment with the package `apache-tvm`. Installs the package if it is
/// missing.
pub(crate) fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    python::environment(workspace, &APACHE_TVM)
}

/// The version of apache-tvm-ffi that apache-tvm 0.27 pins. If its folder comes before the packages
/// of [`APACHE_TVM`] in the search path, Python imports this version.
const PINNED_TVM_FFI: Recipe = Recipe {
    folder: "venv-tvm-ffi-pinned",
    list: "xtask/requirements-tvm-ffi-pinned.txt",
    packages: include_str!("../requirements-tvm-ffi-pinned.txt"),
};

/// A folder with that version, for `PYTHONPATH`.
pub(crate) fn pinned_tvm_ffi(workspace: &Workspace) -> Result<PathBuf> {
    let interpreter = python::environment(workspace, &PINNED_TVM_FFI)?;
    let folder = python::say(workspace, &interpreter, "import tvm_ffi; print(tvm_ffi.__path__[0])")?;
    let packages = PathBuf::from(folder);
    Ok(packages.parent().ok_or("the package tvm_ffi has no folder")?.to_path_buf())
}
