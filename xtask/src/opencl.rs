//! The OpenCL device that tests run on: that of this machine, else PoCL, which provides the CPU as
//! a device.

use crate::Result;
use crate::debian;
use crate::environment::on_ci;
use crate::workspace::{Workspace, find_on_path};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The loader, a driver for the CPU, and the program that the tests compare attributes with.
const PACKAGES: [&str; 3] = ["ocl-icd-libopencl1", "pocl-opencl-icd", "clinfo"];

/// The OpenCL of this machine.
pub(crate) enum OpenCl {
    /// A driver is installed; tests that need a device fail if they do not find one.
    Found,
    /// No driver is installed; the text is the remedy.
    Missing(String),
}

/// Finds OpenCL or installs PoCL, which only root can do. On CI, a machine without it is an error;
/// `KERNPACK_OPENCL=off` disables the search.
pub(crate) fn prepare(workspace: &Workspace) -> Result<OpenCl> {
    let policy = env::var("KERNPACK_OPENCL").unwrap_or_default();
    if policy == "off" {
        return Ok(OpenCl::Missing("KERNPACK_OPENCL=off".to_string()));
    }
    if (!has_driver() || find_on_path("clinfo").is_none()) && debian::can_install(workspace) {
        for package in PACKAGES {
            debian::install(workspace, package)?;
        }
    }
    if has_driver() {
        return Ok(OpenCl::Found);
    }
    let why = format!(
        "there is no OpenCL driver on this machine; install one (Debian and Ubuntu: apt-get install {})",
        PACKAGES.join(" ")
    );
    if policy == "require" || on_ci() { Err(why.into()) } else { Ok(OpenCl::Missing(why)) }
}

/// Returns whether a driver is registered with the loader.
fn has_driver() -> bool {
    let folder = env::var_os("OCL_ICD_VENDORS").unwrap_or_else(|| "/etc/OpenCL/vendors".into());
    fs::read_dir(Path::new(&folder)).is_ok_and(|mut files| files.any(|file| file.is_ok()))
}

impl OpenCl {
    /// Sets the environment of programs: two devices of PoCL, the same on every machine, whose
    /// compiled code is cached below `target/`. The values are those of `.cargo/config.toml`;
    /// variables that are set already stay.
    pub(crate) fn describe(&self, workspace: &Workspace, command: &mut Command) {
        let cache = workspace.root().join("target/pocl");
        let values = [
            ("POCL_DEVICES", "pthread pthread".as_ref()),
            ("POCL_MAX_PTHREAD_COUNT", "2".as_ref()),
            ("POCL_CACHE_DIR", cache.as_os_str()),
        ];
        for (name, value) in values {
            if env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if matches!(self, OpenCl::Found) {
            command.env("KERNPACK_OPENCL", "require");
        }
    }
}
