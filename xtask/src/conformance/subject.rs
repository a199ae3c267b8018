//! The library under test: an environment with the stock package, with its own libtvm_ffi or with
//! another one in its place.

use crate::Result;
use crate::python::{self, Recipe};
use crate::step::{self, Show};
use crate::workspace::{Workspace, shared_library};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: &str = include_str!("../../../tests/conformance/requirements.txt");
const LIST: &str = "tests/conformance/requirements.txt";
const STOCK: Recipe = Recipe { folder: "conformance/stock/venv", list: LIST, packages: PACKAGES };
const OURS: Recipe = Recipe { folder: "conformance/ours/venv", list: LIST, packages: PACKAGES };

/// A symbol that only Kernpack's libraries have.
const OUR_SYMBOL: &[u8] = b"__kernpack_api_v1\0";

/// Finds the package without loading its library.
const FIND_PACKAGE: &str = "import importlib.util as u; print(u.find_spec('tvm_ffi').submodule_search_locations[0])";

/// The libtvm_ffi that the suites run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one that comes with the package.
    Stock,
    /// `kernpack-capi`, built with optimization.
    Ours,
    /// Another build of our library: with a sanitizer, for example.
    File(PathBuf),
}

/// An environment whose package has the chosen library.
pub(crate) struct Subject {
    /// True if it is the stock library.
    pub(crate) is_stock: bool,
    /// The Python program.
    pub(crate) interpreter: PathBuf,
    /// The C and C++ headers.
    pub(crate) include: PathBuf,
    /// The folder of `libtvm_ffi.so` and `libtvm_ffi_testing.so`.
    pub(crate) library_folder: PathBuf,
    /// The folder in which suites keep what they build with this library.
    pub(crate) builds: PathBuf,
}

impl Subject {
    /// Makes the environment and puts the library into the package's folder.
    pub(crate) fn prepare(workspace: &Workspace, choice: &Choice) -> Result<Self> {
        let is_stock = *choice == Choice::Stock;
        let interpreter = python::environment(workspace, if is_stock { &STOCK } else { &OURS })?;
        let package = PathBuf::from(python::say(workspace, &interpreter, FIND_PACKAGE)?);
        let builds = workspace.folder(if is_stock { "conformance/stock" } else { "conformance/ours" })?;
        let subject = Subject {
            is_stock,
            interpreter,
            include: package.join("include"),
            library_folder: package.join("lib"),
            builds,
        };
        match choice {
            Choice::Stock => {}
            Choice::Ours => subject.swap_in(&build(workspace)?)?,
            Choice::File(file) => subject.swap_in(file)?,
        }
        subject.check()?;
        Ok(subject)
    }

    /// The library that the suites must run with.
    pub(crate) fn library(&self) -> PathBuf {
        shared_library(&self.library_folder, "tvm_ffi")
    }

    /// A command in the root of the checkout that finds this environment's programs first and
    /// builds into its folders.
    pub(crate) fn command(&self, workspace: &Workspace, program: &Path) -> Result<Command> {
        self.describe(workspace.command(program))
    }

    /// Gives a command this environment.
    pub(crate) fn describe(&self, mut command: Command) -> Result<Command> {
        let programs = self.interpreter.parent().ok_or("a Python without a folder")?.to_path_buf();
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path)))?;
        command.env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TVM_FFI_CACHE_DIR", self.builds.join("jit")).env("CARGO_TARGET_DIR", self.builds.join("rust"));
        // Another package must not come before the one of this environment.
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        Ok(command)
    }

    /// Copies the library over the package's own. The stock one stays in the other environment.
    fn swap_in(&self, library: &Path) -> Result {
        let place = self.library();
        let part = place.with_extension("part");
        fs::copy(library, &part)
            .and_then(|_| fs::rename(&part, &place))
            .map_err(|error| format!("cannot copy {} to {}: {error}", library.display(), place.display()).into())
    }

    /// Checks that the file is the expected library.
    fn check(&self) -> Result {
        let place = self.library();
        let bytes = fs::read(&place).map_err(|error| format!("cannot read {}: {error}", place.display()))?;
        let is_ours = bytes.windows(OUR_SYMBOL.len()).any(|window| window == OUR_SYMBOL);
        match (self.is_stock, is_ours) {
            (true, false) | (false, true) => Ok(()),
            (true, true) => Err(format!("{} is not the stock library", place.display()).into()),
            (false, false) => Err(format!("{} is not a library of Kernpack", place.display()).into()),
        }
    }

    /// Checks with the dynamic linker that programs use the libtvm_ffi of this environment. Another
    /// one, or none in all programs, is an error.
    pub(crate) fn check_programs(&self, workspace: &Workspace, programs: &[PathBuf]) -> Result {
        let mut users = 0;
        for program in programs {
            let mut trace = self.command(workspace, program)?;
            trace.env("LD_LIBRARY_PATH", &self.library_folder).env("LD_TRACE_LOADED_OBJECTS", "1");
            let output = trace
                .output()
                .map_err(|error| format!("cannot ask for the libraries of {}: {error}", program.display()))?;
            match loaded_from(&String::from_utf8_lossy(&output.stdout)) {
                Some(path) if Path::new(path) == self.library() => users += 1,
                Some(path) => {
                    let (program, library) = (program.display(), self.library());
                    return Err(format!("{program} runs with libtvm_ffi.so {path}, not {}", library.display()).into());
                }
                None => {}
            }
        }
        if users == 0 { Err("no program of the tests runs with libtvm_ffi.so".into()) } else { Ok(()) }
    }
}

/// The path of libtvm_ffi in the output of the dynamic linker:
/// `\tlibtvm_ffi.so => /path/libtvm_ffi.so (0x00007f...)`.
fn loaded_from(list: &str) -> Option<&str> {
    let line = list.lines().find_map(|line| line.trim().strip_prefix("libtvm_ffi.so => "))?;
    Some(line.rsplit_once(" (").map_or(line, |(path, _)| path))
}

/// Builds our library with optimization.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "kernpack-capi"]);
    step::run("build libtvm_ffi.so from kernpack-capi", &mut cargo, Show::Warnings)?;
    Ok(shared_library(&workspace.cargo_target().join("release"), "tvm_ffi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dynamic_linkers_list() {
        let list = "\tlinux-vdso.so.1 (0x7ff)\n\tlibtvm_ffi_testing.so => /a/libtvm_ffi_testing.so (0x1)\n\tlibtvm_ffi.so => /a b/libtvm_ffi.so (0x2)\n";
        assert_eq!(loaded_from(list), Some("/a b/libtvm_ffi.so"));
        assert_eq!(loaded_from("\tlibtvm_ffi.so => not found\n"), Some("not found"));
        assert_eq!(loaded_from("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"), None);
    }
}
