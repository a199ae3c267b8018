//! The environment variables and the programs of this machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// A program that takes longer counts as hanging.
const TIME: Duration = Duration::from_secs(30);
const MOST_OUTPUT: u64 = 1 << 20;

/// The environment that checks may read.
pub(super) struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// The environment of this process.
    pub(super) fn of_process() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    /// An environment with only these variables.
    #[cfg(test)]
    pub(super) fn fake(variables: &[(&str, &str)]) -> Self {
        Self { variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// Returns a variable with a value.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns the first file with this name in the folders of `PATH`. A path is returned
    /// unchanged.
    pub(super) fn find(&self, program: impl AsRef<OsStr>) -> Option<PathBuf> {
        let program = Path::new(program.as_ref());
        if program.components().count() > 1 {
            return program.is_file().then(|| program.to_owned());
        }
        let name = format!("{}{}", program.display(), std::env::consts::EXE_SUFFIX);
        std::env::split_paths(self.variable("PATH")?).map(|folder| folder.join(&name)).find(|file| file.is_file())
    }

    /// Runs a program and returns its output, without the line break at its end.
    ///
    /// # Errors
    /// Returns the reason why the program did not start, or its last line.
    pub(super) fn run(&self, program: &Path, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&self.variables).env("LC_ALL", "C");
        run(command)
    }
}

/// The search for LLVM queries the same machine.
impl kernpack_llvm_find::Machine for Environment {
    fn variable(&self, name: &str) -> Option<OsString> {
        Self::variable(self, name).map(OsStr::to_owned)
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String> {
        Self::run(self, program, arguments)
    }
}

/// Runs a command and returns its output. Separate threads read the output, so that a full pipe
/// cannot block the command.
pub(super) fn run(mut command: Command) -> Result<String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.map(|stream| stream.take(MOST_OUTPUT).read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).trim().to_owned()
        })
    };
    let output = reader(child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let errors = reader(child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < TIME => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} took more than {} seconds, and was ended", TIME.as_secs()));
            }
        }
    };
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if status.success() {
        return Ok(output);
    }
    let said = [&errors, &output].into_iter().find_map(|text| text.lines().rfind(|line| !line.trim().is_empty()));
    Err(format!("{name} failed ({status}): {}", said.map_or("without a message", |line| line.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs() {
        let environment = Environment::fake(&[("PATH", "/nowhere:/bin:/usr/bin"), ("EMPTY", ""), ("WORD", "said")]);
        let shell = environment.find("sh").unwrap();
        assert_eq!(environment.find(&shell), Some(shell.clone()));
        assert_eq!(environment.find("no-such-program"), None);
        assert_eq!(environment.find("/nowhere/sh"), None);
        assert_eq!(environment.variable("EMPTY"), None);
        assert_eq!(environment.run(&shell, &["-c", "echo $WORD $HOME"]), Ok("said".to_owned()));
        assert_eq!(
            environment.run(&shell, &["-c", "echo out; echo 'it broke' >&2; exit 3"]),
            Err("sh failed (exit status: 3): it broke".to_owned())
        );
        assert_eq!(
            environment.run(&shell, &["-c", "exit 1"]),
            Err("sh failed (exit status: 1): without a message".to_owned())
        );
    }
}
