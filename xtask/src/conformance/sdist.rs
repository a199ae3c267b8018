//! The source archive of apache-tvm-ffi, which contains the reference suites.

use crate::Result;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};

const PROJECT: &str = "apache-tvm-ffi";
const NAME: &str = "apache_tvm_ffi-0.1.15.post2";
const SHA256: &str = "909be9ef5af07726aa9afd38a3111abc4d86cfd5927ebedfa9166232ce7d287b";

/// Unpacks an archive into a new folder.
const UNPACK: &str = "
import sys, tarfile
with tarfile.open(sys.argv[1]) as archive:
    archive.extraction_filter = getattr(tarfile, 'data_filter', None)
    archive.extractall(sys.argv[2])
";

/// The archive, unpacked below `target/conformance`.
pub(crate) struct Sdist {
    folder: PathBuf,
}

impl Sdist {
    /// Downloads and unpacks the archive, once. Its hash is checked.
    pub(crate) fn prepare(workspace: &Workspace, python: &Path) -> Result<Self> {
        let parent = workspace.folder("conformance")?;
        let folder = parent.join(NAME);
        if folder.is_dir() {
            return Ok(Sdist { folder });
        }
        let archive = parent.join(format!("{NAME}.tar.gz"));
        let mut fetch = workspace.command(python);
        fetch
            .arg(workspace.root().join("tests/conformance/fetch_sdist.py"))
            .args([PROJECT, &format!("{NAME}.tar.gz"), SHA256])
            .arg(&archive);
        step::run(&format!("fetch {NAME}.tar.gz"), &mut fetch, Show::Warnings)?;

        // The folder gets its final name when it is complete.
        let part = parent.join("unpacking");
        if part.exists() {
            fs::remove_dir_all(&part).map_err(|error| format!("cannot remove {}: {error}", part.display()))?;
        }
        let mut unpack = workspace.command(python);
        unpack.args(["-c", UNPACK]).arg(&archive).arg(&part);
        step::run(&format!("unpack {NAME}.tar.gz"), &mut unpack, Show::Warnings)?;
        fs::rename(part.join(NAME), &folder)
            .map_err(|error| format!("{NAME}.tar.gz has no folder {NAME} in it: {error}"))?;
        fs::remove_dir_all(&part).map_err(|error| format!("cannot remove {}: {error}", part.display()))?;
        Ok(Sdist { folder })
    }

    /// The root of the archive.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}
