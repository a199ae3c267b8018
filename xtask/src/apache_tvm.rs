//! Apache TVM in a Python environment of its own, for examples/extension and for the tests of both
//! ways between it and us.

use crate::Result;
use crate::python::{self, Recipe};
use crate::workspace::Workspace;
use std::path::PathBuf;

/// The environment. The wheel of apache-tvm has 100 MB, and there is none for some machines:
/// callers go on without it.
const APACHE_TVM: Recipe = Recipe {
    folder: "venv-tvm",
    list: "xtask/requirements-tvm.txt",
    packages: include_str!("../requirements-tvm.txt"),
};

/// The interpreter of an environment with the package `apache-tvm`, which is installed if it is not
/// there.
pub(crate) fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    python::environment(workspace, &APACHE_TVM)
}

/// The version of apache-tvm-ffi that apache-tvm 0.27 pins. Where it stands before the packages of
/// [`APACHE_TVM`], it serves.
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
