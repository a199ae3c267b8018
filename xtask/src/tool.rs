//! Programs from PyPI's wheels: one version each, checked by digest, in `target/tools`.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A program, and the wheels that have it.
pub(crate) struct Tool {
    /// The name of the program.
    pub(crate) program: &'static str,
    /// The version of the program and of the package.
    pub(crate) version: &'static str,
    /// The output of `--version`.
    pub(crate) answer: &'static str,
    /// The package of PyPI.
    pub(crate) package: &'static str,
    /// SHA-256 digests of the wheels, one for each platform.
    pub(crate) digests: &'static [&'static str],
}

impl Tool {
    /// Returns the program on PATH if it has this version, else the installed one.
    pub(crate) fn present(&self, workspace: &Workspace) -> Option<PathBuf> {
        let candidates = find_on_path(self.program).into_iter().chain([self.installed(workspace)]);
        candidates.into_iter().find(|program| self.is_at(workspace, program))
    }

    /// Unpacks the wheel for this machine, and returns the program. Waits for another process that
    /// installs the same one.
    pub(crate) fn install(&self, workspace: &Workspace) -> Result<PathBuf> {
        let folder = workspace.folder(&self.folder())?;
        let alone = File::create(folder.join("lock"))?;
        alone.lock()?;
        let program = self.installed(workspace);
        if self.is_at(workspace, &program) {
            return Ok(program);
        }
        let list = folder.join("requirements.txt");
        fs::write(&list, self.requirement()).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
        let venv = workspace.root().join("target/venv/bin/python");
        let python = Some(venv).filter(|python| python.is_file()).or_else(|| find_on_path("python3"));
        let python = python.ok_or("there is no python3 on PATH")?;
        let mut pip = workspace.command(python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
        pip.args(["--require-hashes", "--only-binary", ":all:", "--upgrade", "--target"]).arg(&folder);
        pip.arg("--requirement").arg(&list);
        let name = format!("install {} {} into target/{}", self.program, self.version, self.folder());
        step::run(&name, &mut pip, Show::Warnings)?;
        if self.is_at(workspace, &program) {
            return Ok(program);
        }
        Err(format!("{}: expected the answer '{}' to --version", program.display(), self.answer).into())
    }

    /// The folder of the wheel's files, below `target/`.
    pub(crate) fn folder(&self) -> String {
        format!("tools/{}-{}", self.program, self.version)
    }

    /// The path of the program in that folder. `cargo install --root` uses the same one.
    pub(crate) fn installed(&self, workspace: &Workspace) -> PathBuf {
        workspace.root().join("target").join(self.folder()).join("bin").join(self.program)
    }

    /// Returns true if this file is the program in this version.
    fn is_at(&self, workspace: &Workspace, program: &Path) -> bool {
        let output = workspace.command(program).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == self.answer)
    }

    /// The line of a requirements file. pip accepts a wheel with any of the digests, and no other.
    fn requirement(&self) -> String {
        let digests: String = self.digests.iter().map(|digest| format!(" --hash=sha256:{digest}")).collect();
        format!("{}=={}{digests}\n", self.package, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Tool = Tool {
        program: "sh",
        version: "1.2",
        answer: "no shell prints this",
        package: "some-shell",
        digests: &["00ff", "11ee"],
    };

    #[test]
    fn a_requirement_has_the_version_and_all_digests() {
        assert_eq!(TOOL.requirement(), "some-shell==1.2 --hash=sha256:00ff --hash=sha256:11ee\n");
    }

    #[test]
    fn a_program_of_another_version_is_not_present() {
        let workspace = Workspace::find().unwrap();
        assert_eq!(TOOL.present(&workspace), None);
        assert!(TOOL.installed(&workspace).ends_with("target/tools/sh-1.2/bin/sh"));
    }
}
