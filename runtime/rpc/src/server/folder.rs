use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The folder of one session: initially empty, accessible to this user only, and removed when this
/// value is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(parent: Option<&Path>) -> io::Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("kernpack-rpc-{}-{number}", std::process::id()));
            // An existing folder is not ours: another name is tried, and links are not followed.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        process::remove(&self.0);
    }
}
