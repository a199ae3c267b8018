use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// A folder for intermediate files. A temporary one is deleted with its content when this is
/// dropped.
pub(super) struct Folder {
    path: PathBuf,
    is_ours: bool,
}

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Returns a number that is unique in this process.
#[inline]
pub(super) fn unique() -> String {
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Folder {
    /// Creates a folder where the system keeps temporary files.
    #[inline]
    pub(super) fn new() -> Result<Self> {
        loop {
            let path = std::env::temp_dir().join(format!("kernpack-export-{}", unique()));
            // No other code may put anything into it that is compiled and loaded.
            match create_for_us(&path) {
                Ok(()) => return Ok(Self { path, is_ours: true }),
                // Left by another process with the same process number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(crate::error!(OSError, "{} cannot be created: {error}", path.display())),
            }
        }
    }

    /// Uses the caller's folder, which stays with its content.
    #[inline]
    pub(super) fn existing(path: &Path) -> Result<Self> {
        let created = std::fs::create_dir_all(path).and_then(|()| std::path::absolute(path));
        let path = created.map_err(|error| crate::error!(OSError, "{} cannot be created: {error}", path.display()))?;
        Ok(Self { path, is_ours: false })
    }

    #[inline]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a folder that no other user can write to.
#[inline]
fn create_for_us(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // On Windows, the temporary folder belongs to one user.
    #[cfg(not(unix))]
    let builder = &mut builder;
    builder.create(path)
}

impl Drop for Folder {
    #[inline]
    fn drop(&mut self) {
        if self.is_ours {
            // If the folder cannot be removed, the system must clean it up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
