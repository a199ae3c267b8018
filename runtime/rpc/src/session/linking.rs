//! Links objects to shared libraries: Apache TVM may export an object (`.o`) or an archive of
//! objects (`.tar`) for another machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernpack::{Result, ensure, error};

/// Returns the shared library of a file, linked beside it if necessary.
pub(super) fn shared_library(path: &Path) -> Result<PathBuf> {
    let extension = path.extension().unwrap_or_default();
    if extension != "o" && extension != "tar" {
        return Ok(path.to_path_buf());
    }
    let library = with_suffix(path, ".so");
    let objects = if extension == "tar" { unpack(path)? } else { vec![path.to_path_buf()] };
    let mut link = Command::new("cc");
    link.args(["-shared", "-fPIC", "-o"]).arg(&library).args(&objects);
    run(&mut link, path)?;
    Ok(library)
}

/// Unpacks the objects of an archive into a folder beside it.
fn unpack(archive: &Path) -> Result<Vec<PathBuf>> {
    let folder = with_suffix(archive, ".objects");
    let made = fs::create_dir_all(&folder);
    made.map_err(|problem| error!(RuntimeError, "cannot create {}: {problem}", folder.display()))?;
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder), archive)?;
    let mut objects = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && path.extension().is_some_and(|extension| extension == "o") => {
                    objects.push(path)
                }
                _ => {}
            }
        }
    }
    ensure!(!objects.is_empty(), ValueError, "{} has no objects (.o) in it", name(archive));
    objects.sort();
    Ok(objects)
}

fn run(command: &mut Command, file: &Path) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|problem| {
        error!(
            RuntimeError,
            "{} is to be linked, and `{program}` cannot be started on this server ({problem}); upload a shared library (.so)",
            name(file)
        )
    })?;
    ensure!(
        output.status.success(),
        RuntimeError,
        "`{program}` failed with {} ({}): {}",
        name(file),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut text = OsString::from(path);
    text.push(suffix);
    PathBuf::from(text)
}
