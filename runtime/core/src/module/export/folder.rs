use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// A folder for files on the way. One of our own goes with everything in it when this is dropped.
pub(super) struct Folder {
    path: PathBuf,
    is_ours: bool,
}

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A number that no other call in this process gets.
#[inline]
pub(super) fn unique() -> String {
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Folder {
    /// A new folder where the system has such files.
    #[inline]
    pub(super) fn new() -> Result<Self> {
        loop {
            let path = std::env::temp_dir().join(format!("kernpack-export-{}", unique()));
            // No other code puts anything into it that is compiled and loaded.
            match create_for_us(&path) {
                Ok(()) => return Ok(Self { path, is_ours: true }),
                // Another process of the same number left it.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(crate::error!(OSError, "{} cannot be created: {error}", path.display())),
            }
        }
    }

    /// A user's folder, which stays with what is put into it.
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

/// A folder that no other user writes to.
#[inline]
fn create_for_us(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // The temporary folder of a user of Windows is theirs alone.
    #[cfg(not(unix))]
    let builder = &mut builder;
    builder.create(path)
}

impl Drop for Folder {
    #[inline]
    fn drop(&mut self) {
        if self.is_ours {
            // What cannot be removed is the system's to clean up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
