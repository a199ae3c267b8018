//! A package in editable mode: the folder that it is imported from, where Python sources are links,
//! so that changes take effect immediately.

use std::fs;
use std::path::{Path, PathBuf};

use super::contents::{Content, Contents};
use crate::Result;

/// Writes the package into `folder/module`, and replaces the result of an earlier call. Returns the
/// path of `folder`.
pub(crate) fn write(folder: &Path, module: &str, contents: &Contents, library: &[u8]) -> Result<PathBuf> {
    let problem = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let package = folder.join(module);
    if package.exists() {
        // Links are removed, not their targets.
        fs::remove_dir_all(&package).map_err(|error| problem(&package, error))?;
    }
    fs::create_dir_all(&package).map_err(|error| problem(&package, error))?;
    for (path, content) in &contents.files {
        let place = package.join(path);
        match content {
            // Files in a folder are included with the folder.
            Content::Source(_) if path.contains('/') => {}
            Content::Source(file) => link(file, &place).map_err(|error| problem(&place, error))?,
            written => fs::write(&place, written.bytes(library)?).map_err(|error| problem(&place, error))?,
        }
    }
    let folders = contents.files.iter().filter_map(|(path, content)| match content {
        Content::Source(_) => path.split_once('/').map(|(folder, _)| folder),
        _ => None,
    });
    for name in folders {
        let (Some(sources), place) = (&contents.sources, package.join(name)) else { continue };
        if !place.exists() {
            link(&sources.join(name), &place).map_err(|error| problem(&place, error))?;
        }
    }
    folder.canonicalize().map_err(|error| problem(folder, error))
}

#[cfg(unix)]
fn link(file: &Path, place: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(file.canonicalize()?, place)
}

/// Copies a file on systems where links need rights that users do not have. Folders are not
/// supported.
#[cfg(not(unix))]
fn link(file: &Path, place: &Path) -> std::io::Result<()> {
    fs::copy(file, place).map(drop)
}
