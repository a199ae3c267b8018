//! PyTorch for the CPU, with which the wheel's test calls a library. PyPI's package contains all of
//! CUDA (gigabytes); Debian's does not.

use crate::Result;
use crate::debian;
use crate::workspace::Workspace;
use std::path::PathBuf;

/// Debian's PyTorch, and the package that makes environments for its interpreter.
const PACKAGES: [&str; 2] = ["python3-torch", "python3-venv"];

/// The interpreter of Debian's packages.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// An interpreter that has PyTorch. Installs PyTorch if it is missing, which only root can do.
pub(crate) fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    if !has_torch(workspace) && debian::can_install(workspace) {
        for package in PACKAGES {
            debian::install(workspace, package)?;
        }
    }
    if has_torch(workspace) {
        return Ok(SYSTEM_PYTHON.into());
    }
    let packages = PACKAGES.join(" ");
    Err(format!("{SYSTEM_PYTHON} has no PyTorch; install it (Debian and Ubuntu: apt-get install {packages})").into())
}

fn has_torch(workspace: &Workspace) -> bool {
    let mut python = workspace.command(SYSTEM_PYTHON);
    python.args(["-c", "import torch, ensurepip"]);
    python.output().is_ok_and(|output| output.status.success())
}
