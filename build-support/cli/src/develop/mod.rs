//! `cargo kernpack develop`: installs a package into a Python environment in editable mode.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::wheel::{self, Options};

/// Builds the library, writes an editable wheel, and installs it with pip.
///
/// # Errors
/// Returns an error if there is no environment or the wheel cannot be built, and the errors of pip.
pub(crate) fn install(options: &mut Options) -> Result<String> {
    let environment = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let python = interpreter(options.interpreter.as_deref(), environment.as_deref())?;
    let folder = tempfolder()?;
    options.out = Some(folder.clone());
    let installed = wheel::make(options).and_then(|made| {
        // Reinstalls the same version with different content.
        pip(
            &python,
            &["--force-reinstall".as_ref(), "--no-deps".as_ref(), "--no-index".as_ref(), made.path().as_os_str()],
        )?;
        if let Some(requires) = made.requires() {
            pip(&python, &[requires.as_ref()])?;
        }
        Ok(format!("installed for {}\n  {}\n", python.display(), made.offer()))
    });
    // Remaining files are in the system's folder for temporary files.
    let _ = std::fs::remove_dir_all(folder);
    installed
}

/// Returns the requested Python, or else that of the active environment.
fn interpreter(named: Option<&Path>, environment: Option<&Path>) -> Result<PathBuf> {
    let python = match (named, environment) {
        (Some(python), _) => python.to_owned(),
        (None, Some(environment)) if cfg!(windows) => environment.join("Scripts/python.exe"),
        (None, Some(environment)) => environment.join("bin/python"),
        (None, None) => {
            return Err("no virtual environment is active (VIRTUAL_ENV is not set): activate one, or name a Python with --python"
                .to_owned());
        }
    };
    match python.is_file() {
        true => Ok(python),
        false => Err(format!("there is no Python {}", python.display())),
    }
}

/// Creates a new folder. An existing one may belong to another user, or be a link.
fn tempfolder() -> Result<PathBuf> {
    let mut number = 0;
    loop {
        let folder = std::env::temp_dir().join(format!("kernpack-develop-{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(format!("cannot make {}: {error}", folder.display())),
        }
    }
}

/// Runs `pip install` with these words. pip's output goes to standard error.
fn pip(python: &Path, words: &[&OsStr]) -> Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]).args(words);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", python.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "pip of {} did not install the package:\n{}",
            python.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_new() {
        let [first, second] = [tempfolder().unwrap(), tempfolder().unwrap()];
        assert_ne!(first, second);
        for folder in [first, second] {
            std::fs::remove_dir(folder).unwrap();
        }
    }

    #[test]
    fn which_python() {
        let here = std::env::current_exe().unwrap();
        assert_eq!(interpreter(Some(&here), None), Ok(here));
        assert_eq!(
            interpreter(None, None).unwrap_err(),
            "no virtual environment is active (VIRTUAL_ENV is not set): activate one, or name a Python with --python"
        );
        assert_eq!(
            interpreter(None, Some(Path::new("/nowhere"))).unwrap_err(),
            "there is no Python /nowhere/bin/python"
        );
    }
}
