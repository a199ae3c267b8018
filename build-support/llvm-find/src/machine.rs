//! The environment variables and the programs of a machine.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The parts of a machine that the search reads.
pub trait Machine {
    /// Returns the value of an environment variable. An empty one counts as unset.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// Runs a program and returns its output, trimmed.
    ///
    /// # Errors
    /// Returns one sentence without a full stop if the program does not start, or fails.
    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String, String>;

    /// Returns the first file with this name in the folders of `PATH`. A path with folders is
    /// returned unchanged.
    fn program(&self, name: &Path) -> Option<PathBuf> {
        if name.components().count() > 1 {
            return name.is_file().then(|| name.to_owned());
        }
        let name = format!("{}{}", name.display(), env::consts::EXE_SUFFIX);
        env::split_paths(&self.variable("PATH")?).map(|folder| folder.join(&name)).find(|file| file.is_file())
    }
}

/// The machine of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Machine for Process {
    fn variable(&self, name: &str) -> Option<OsString> {
        env::var_os(name).filter(|value| !value.is_empty())
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let name = program.display();
        match Command::new(program).args(arguments).output() {
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a message");
                Err(format!("{name} failed ({}): {}", output.status, line.trim()))
            }
            Err(error) => Err(format!("{name} does not start: {error}")),
        }
    }
}
