//! Data of tensors in files next to the model.
//!
//! The model contains the names of these files, and may come from an untrusted source. So a file
//! must be in the folder of the model, also after all links are resolved: an unpacked folder may
//! have links to anywhere.

use std::fs::File;
use std::io::{Error, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::error::{GraphError, Result, fail, require};

/// Returns the path of a file in the folder of the model, and some of its bytes.
///
/// # Errors
/// Returns an error for a file outside the folder, by its name or by a link, and for one that is
/// not a regular file, or too short.
pub(super) fn read(folder: &Path, location: &str, offset: u64, length: u64) -> Result<(PathBuf, Vec<u8>)> {
    let relative = Path::new(location);
    let stays = relative.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    require!(stays && !location.is_empty(), "its data is in '{location}', which is outside of the folder of the model");
    // The folder of a model in the current folder has an empty name.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let path = folder.join(relative);
    let failed = |error: Error| GraphError::new(format!("{}: {error}", path.display()));
    let real = path.canonicalize().map_err(failed)?;
    let own = folder.canonicalize().map_err(failed)?;
    if !real.starts_with(&own) {
        fail!(
            "its data is in '{location}', and {} is a link to {}, which is outside of the folder of the model: copy the file into the folder in place of the link",
            path.display(),
            real.display()
        );
    }
    let bytes = bytes_of(&real, offset, length).map_err(failed)?;
    Ok((path, bytes))
}

/// Reads bytes of a file whose path has no links.
fn bytes_of(path: &Path, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(Error::other("it is not a file"));
    }
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(Error::other(format!("bytes {offset} to {offset} + {length} of a file of {size} bytes")));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
