//! The source archive of a package: its tests, and the number of lines of its binding.

use super::{FOLDER, Run};
use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unpacked tests of a package.
pub(super) struct Sdist {
    /// The folder that contains the tests under their paths in the archive, and nothing else.
    pub(super) folder: PathBuf,
    /// The number of lines of code of PyO3's binding.
    pub(super) binding_lines: usize,
}

impl Sdist {
    /// Fetches the archive, whose digest is checked, and unpacks the tests.
    pub(super) fn prepare(run: &Run) -> Result<Self> {
        let port = run.port;
        let archive = run.folder("sdist")?.join(&port.sdist);
        if !archive.is_file() {
            let mut fetch = fetch(run.workspace, run.interpreter, [&port.name, &port.sdist, &port.sha256], &archive);
            step::run(&format!("fetch {}", port.sdist), &mut fetch, Show::Warnings)
                .map_err(|error| format!("{error}: the lines above name the package index and the problem"))?;
        }
        let folder = run.folder("suite")?;
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
        let mut unpack = run.workspace.command(run.interpreter);
        unpack.arg(run.workspace.root().join(FOLDER).join("unpack.py")).args([&archive, &folder]);
        unpack.arg(&port.sha256).args(&port.tests).arg("--").args(&port.binding);
        let output = step::run(&format!("unpack the tests of {}", port.sdist), &mut unpack, Show::Warnings)?;
        let count = output.lines().last().and_then(|line| line.strip_prefix("lines "));
        let binding_lines = count
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| format!("{}: expected a number of lines, got '{}'", port.sdist, output.trim()))?;
        Ok(Self { folder, binding_lines })
    }
}

/// The command that fetches a file of a project: project, file name and digest are its words.
fn fetch(workspace: &Workspace, interpreter: &Path, words: [&str; 3], to: &Path) -> Command {
    let mut command = workspace.command(interpreter);
    command.arg(workspace.root().join("tests/conformance/fetch_sdist.py")).args(words).arg(to);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Finished;

    /// Fetches `kit-1.0.tar.gz` from a folder, as pip would without a network.
    fn fetched(folder: &Path, digest: &str) -> Finished {
        let workspace = Workspace::find().unwrap();
        let to = folder.join("fetched.tar.gz");
        let mut command = fetch(&workspace, Path::new("python3"), ["kit", "kit-1.0.tar.gz", digest], &to);
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", folder);
        step::watch("fetch", &mut command, Show::Warnings).unwrap()
    }

    #[test]
    fn a_changed_digest_and_a_missing_file_are_errors() {
        let folder = std::env::temp_dir().join(format!("kernpack-ports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let missing = fetched(&folder, "00");
        assert!(!missing.success && missing.output.starts_with("kit-1.0.tar.gz could not be fetched"));

        fs::write(folder.join("kit-1.0.tar.gz"), "abc").unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(fetched(&folder, digest).success);
        assert_eq!(fs::read(folder.join("fetched.tar.gz")).unwrap(), b"abc");
        let changed = fetched(&folder, "00");
        assert!(!changed.success);
        assert!(changed.output.contains(&format!("its sha256 is {digest}, expected 00")), "{}", changed.output);
        fs::remove_dir_all(folder).unwrap();
    }
}
