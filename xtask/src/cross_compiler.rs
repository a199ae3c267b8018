//! The C compiler for 64-bit ARM, with which a test exports a library for another machine than this one.

use crate::Result;
use crate::debian;
use crate::workspace::{Workspace, find_on_path};

/// The compiler, and the C library that it links.
const PACKAGES: [&str; 2] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Installs the compiler where it is missing, which only root can. Without it the test says that it is skipped; on CI it fails.
pub(crate) fn prepare(workspace: &Workspace) -> Result {
    if find_on_path("aarch64-linux-gnu-gcc").is_none() && debian::can_install(workspace) {
        for package in PACKAGES {
            debian::install(workspace, package)?;
        }
    }
    Ok(())
}
