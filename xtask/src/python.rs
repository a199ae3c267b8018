//! Python environments below `target/`. An environment is made once, and again when its list of
//! packages or its Python changes.

use crate::Result;
use crate::debian;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// An environment to make: its folder below `target/`, and its list of packages.
pub(crate) struct Recipe {
    /// The folder, from `target/`.
    pub(crate) folder: &'static str,
    /// The list of packages, from the root.
    pub(crate) list: &'static str,
    /// The contents of the list. They are also the stamp of a complete environment.
    pub(crate) packages: &'static str,
}

/// The environment of the hosts, the tests and the demo.
const HOSTS: Recipe =
    Recipe { folder: "venv", list: "xtask/requirements.txt", packages: include_str!("../requirements.txt") };

/// The environment of a user of an extension module, without tvm_ffi.
const BARE: Recipe = Recipe {
    folder: "venv-bare",
    list: "xtask/requirements-bare.txt",
    packages: include_str!("../requirements-bare.txt"),
};

/// The environment of a user without NumPy and tvm_ffi.
const ALONE: Recipe = Recipe {
    folder: "venv-alone",
    list: "xtask/requirements-alone.txt",
    packages: include_str!("../requirements-alone.txt"),
};

/// The environment of a user of PyTorch and JAX: it has Debian's PyTorch.
const FRAMEWORKS: Recipe = Recipe {
    folder: "venv-frameworks",
    list: "xtask/requirements-frameworks.txt",
    packages: include_str!("../requirements-frameworks.txt"),
};

/// The program with which an interpreter prints its version and the path of its executable.
const IDENTIFY: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.executable)";

/// A Python with every package of `requirements.txt`.
pub(crate) struct Python {
    interpreter: PathBuf,
    include: PathBuf,
    library_folder: PathBuf,
}

impl Python {
    /// Returns the environment in `target/venv`. Makes it if it is missing or incomplete.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self> {
        let interpreter = environment(workspace, &HOSTS)?;
        let find =
            |function| say(workspace, &interpreter, &format!("import tvm_ffi.libinfo as l; print(l.{function}())"));
        let include = PathBuf::from(find("find_include_path")?);
        let library = PathBuf::from(find("find_libtvm_ffi")?);
        let library_folder = library.parent().ok_or("libtvm_ffi has no folder")?.to_path_buf();
        Ok(Python { interpreter, include, library_folder })
    }

    /// The Python program.
    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// The folder of its programs, such as `tvm-ffi-config`.
    pub(crate) fn programs(&self) -> &Path {
        self.interpreter.parent().unwrap_or(Path::new("."))
    }

    /// The C and C++ headers of the `apache-tvm-ffi` wheel.
    pub(crate) fn tvm_ffi_include(&self) -> &Path {
        &self.include
    }

    /// The folder of the stock `libtvm_ffi`.
    pub(crate) fn tvm_ffi_library_folder(&self) -> &Path {
        &self.library_folder
    }

    /// The output of a short Python program.
    pub(crate) fn say(&self, workspace: &Workspace, program: &str) -> Result<String> {
        say(workspace, &self.interpreter, program)
    }
}

/// The interpreter of the environment in `target/venv-bare`: with NumPy and pytest, without
/// tvm_ffi.
///
/// # Errors
/// An environment that cannot be made, and one that contains tvm_ffi, because tests in it would be
/// meaningless.
pub(crate) fn without_tvm_ffi(workspace: &Workspace) -> Result<PathBuf> {
    environment_without(workspace, &BARE, "tvm_ffi")
}

/// The interpreter of the environment in `target/venv-alone`: pytest, and no NumPy.
///
/// # Errors
/// As for [`without_tvm_ffi`].
pub(crate) fn without_packages(workspace: &Workspace) -> Result<PathBuf> {
    environment_without(workspace, &ALONE, "numpy")
}

/// The interpreter of an environment that must not have a package.
fn environment_without(workspace: &Workspace, recipe: &Recipe, package: &str) -> Result<PathBuf> {
    let interpreter = environment(workspace, recipe)?;
    let program = format!("import importlib.util as u; print(u.find_spec('{package}') is not None)");
    if say(workspace, &interpreter, &program)? != "False" {
        let advice =
            format!("which target/{} must not have: delete that folder, and look for PYTHONPATH", recipe.folder);
        return Err(format!("{} finds {package}, {advice}", interpreter.display()).into());
    }
    Ok(interpreter)
}

/// The interpreter of the environment in `target/venv-frameworks`: with JAX, and with the packages
/// of an interpreter that has PyTorch.
pub(crate) fn with_frameworks(workspace: &Workspace, torch: &Path) -> Result<PathBuf> {
    let identity = say(workspace, torch, IDENTIFY)?;
    environment_of(workspace, &FRAMEWORKS, &Base { program: torch.to_path_buf(), identity, shares: true })
}

/// The interpreter of an environment. Makes the environment if it is missing or incomplete.
pub(crate) fn environment(workspace: &Workspace, recipe: &Recipe) -> Result<PathBuf> {
    environment_of(workspace, recipe, &base_interpreter(workspace)?)
}

fn environment_of(workspace: &Workspace, recipe: &Recipe, base: &Base) -> Result<PathBuf> {
    let folder = workspace.folder(recipe.folder)?;
    let interpreter = folder.join("bin/python");
    let stamp_file = folder.join("complete");
    let stamp = format!("{}\n{}", base.identity, recipe.packages);
    let complete = fs::read_to_string(&stamp_file).is_ok_and(|text| text == stamp);
    if !complete || say(workspace, &interpreter, IDENTIFY).is_err() {
        make(workspace, base, &folder)?;
        install(workspace, &interpreter, recipe)?;
        fs::write(&stamp_file, stamp).map_err(|error| format!("cannot write {}: {error}", stamp_file.display()))?;
    }
    Ok(interpreter)
}

/// A Python of this machine, from which environments are made.
struct Base {
    program: PathBuf,
    identity: String,
    /// The environments have its packages, too.
    shares: bool,
}

/// The Python to make the environment with: `PYTHON`, else `python3` or `python` on PATH, 3.9 or
/// newer.
fn base_interpreter(workspace: &Workspace) -> Result<Base> {
    let program = env::var_os("PYTHON")
        .map(PathBuf::from)
        .or_else(|| find_on_path("python3"))
        .or_else(|| find_on_path("python"))
        .ok_or(
            "no python3 on PATH: install Python 3.9 or newer (Debian: python3 and python3-venv), or set PYTHON to it",
        )?;
    let identity = say(workspace, &program, IDENTIFY)?;
    match version(&identity) {
        Some(version) if version >= (3, 9) => Ok(Base { program, identity, shares: false }),
        _ => {
            Err(format!("{} is Python {identity}: 3.9 or newer is needed; set PYTHON to another", program.display())
                .into())
        }
    }
}

/// Major and minor number at the start of `3.11.7 /usr/bin/python3`.
fn version(identity: &str) -> Option<(u32, u32)> {
    let mut numbers = identity.split(['.', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Makes an empty environment. Debian has a separate package for the module `venv`; root installs
/// it here.
fn make(workspace: &Workspace, base: &Base, folder: &Path) -> Result {
    let program = &base.program;
    let make = || {
        let mut command = workspace.command(program);
        command.args(["-m", "venv", "--clear"]).arg(folder);
        if base.shares {
            command.arg("--system-site-packages");
        }
        step::watch(&format!("make a Python environment in {}", folder.display()), &mut command, Show::Warnings)
    };
    if make()?.success {
        return Ok(());
    }
    let advice = "install the package python3-venv (Debian, Ubuntu: apt-get install python3-venv), or set PYTHON to a Python that has the modules venv and ensurepip";
    let has_modules = say(workspace, program, "import venv, ensurepip").is_ok();
    if has_modules || !debian::can_install(workspace) {
        return Err(format!("{} -m venv failed: {advice}", program.display()).into());
    }
    debian::install(workspace, "python3-venv")
        .map_err(|error| format!("{error}; {} -m venv failed: {advice}", program.display()))?;
    if make()?.success {
        return Ok(());
    }
    Err(format!("{} -m venv failed with python3-venv installed: {advice}", program.display()).into())
}

/// Installs every package of the list. pip caches its downloads.
fn install(workspace: &Workspace, interpreter: &Path, recipe: &Recipe) -> Result {
    let Recipe { folder, list, .. } = recipe;
    let mut command = workspace.command(interpreter);
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--only-binary=:all:", "-r"])
        .arg(workspace.root().join(list));
    step::run(&format!("install the packages of {list} into target/{folder}"), &mut command, Show::Warnings).map_err(
        |error| {
            format!("{error}: the Python packages of {list} could not be installed (they come from PyPI, or from the index that pip is configured for)")
        },
    )?;
    Ok(())
}

/// Runs a short Python program and returns its output, without the last line break.
pub(crate) fn say(workspace: &Workspace, interpreter: &Path, program: &str) -> Result<String> {
    let output = workspace
        .command(interpreter)
        .args(["-c", program])
        .output()
        .map_err(|error| format!("cannot start {}: {error}", interpreter.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or("no message");
    Err(format!("{} -c '{program}': {last}", interpreter.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (identity, expected) in [
            ("3.11.7 /usr/bin/python3", Some((3, 11))),
            ("3.9.18 /opt/python 3/bin/python", Some((3, 9))),
            ("2.7.18 /usr/bin/python", Some((2, 7))),
            ("", None),
            ("three", None),
        ] {
            assert_eq!(version(identity), expected, "{identity}");
        }
    }
}
