use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::session::Session;
use crate::{Error, Result};

/// A module that the library contains: its kind, the bytes for its loader
/// (`ffi.Module.load_from_bytes.<kind>`), and its imports. Clones are the same module, which is
/// stored once, however many modules import it.
///
/// ```no_run
/// use kernpack_build::{Library, Module};
///
/// # fn main() -> kernpack_build::Result<()> {
/// let weights = Module::from_file("my.weights", "data/weights.bin");
/// let encoder = Module::from_bytes("my.graph", *b"encoder").import(&weights);
/// let decoder = Module::from_bytes("my.graph", *b"decoder").import(&weights);
/// Library::new().import(&encoder).import(&decoder).build()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    node: Rc<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    kind: String,
    /// The bytes before the content of the file, or all bytes.
    head: Vec<u8>,
    file: Option<PathBuf>,
    imports: Vec<Module>,
}

impl Module {
    /// Creates a module from bytes in the build script.
    pub fn from_bytes(kind: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(kind.into(), bytes.into(), None)
    }

    /// Creates a module from the bytes of a file, which is read when the library is written and
    /// never held in memory twice. The path is relative to the package. The build script runs again
    /// when the file changes.
    pub fn from_file(kind: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(kind.into(), Vec::new(), Some(path.as_ref().to_owned()))
    }

    /// Creates a module from `head` followed by the bytes of a file.
    pub(crate) fn head_and_file(kind: &str, head: Vec<u8>, path: PathBuf) -> Self {
        Self::new(kind.to_owned(), head, Some(path))
    }

    fn new(kind: String, head: Vec<u8>, file: Option<PathBuf>) -> Self {
        Self { node: Rc::new(Node { kind, head, file, imports: Vec::new() }) }
    }

    /// Adds an import. Earlier clones are not affected: the result is a different module.
    #[must_use = "the module that imports is the result"]
    pub fn import(mut self, other: &Module) -> Self {
        Rc::make_mut(&mut self.node).imports.push(other.clone());
        self
    }

    pub(crate) fn kind(&self) -> &str {
        &self.node.kind
    }

    pub(crate) fn imports(&self) -> &[Module] {
        &self.node.imports
    }

    /// The address that identifies this module.
    pub(crate) fn address(&self) -> *const () {
        Rc::as_ptr(&self.node).cast()
    }

    /// Tracks the file and returns the number of bytes.
    pub(crate) fn size(&self, session: &Session) -> Result<u64> {
        let head = self.node.head.len() as u64;
        let Some(file) = &self.node.file else { return Ok(head) };
        let full = session.package_dir.join(file);
        if !full.starts_with(&session.out_dir) {
            session.input(file)?;
        }
        let metadata = fs::metadata(&full);
        metadata
            .map(|metadata| head + metadata.len())
            .map_err(|e| Error::new(format!("{}: cannot be read: {e}", session.name_of(file))))
    }

    /// Writes the bytes.
    pub(crate) fn write_to(&self, session: &Session, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.node.head)?;
        if let Some(file) = &self.node.file {
            let name = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", session.name_of(file)));
            let mut file = File::open(session.package_dir.join(file)).map_err(name)?;
            io::copy(&mut file, out).map_err(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_the_same_module() {
        let shared = Module::from_bytes("k", *b"x");
        assert_eq!(shared.address(), shared.clone().address());
        let importer = shared.clone().import(&shared);
        assert_ne!(importer.address(), shared.address());
        assert!(shared.imports().is_empty());
        assert_eq!(importer.imports()[0].address(), shared.address());
    }
}
