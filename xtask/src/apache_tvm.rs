//! Apache TVM in a Python environment of its own, for what examples/extension does there.

use crate::Result;
use crate::python::{self, Recipe};
use crate::workspace::Workspace;
use std::path::PathBuf;

/// The environment. The wheel of apache-tvm has 100 MB, and there is none for some machines: whoever asks goes on without it.
const APACHE_TVM: Recipe = Recipe {
    folder: "venv-tvm",
    list: "xtask/requirements-tvm.txt",
    packages: include_str!("../requirements-tvm.txt"),
};

/// The interpreter of an environment with the package `apache-tvm`, which is installed if it is not there.
pub(crate) fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    python::environment(workspace, &APACHE_TVM)
}
