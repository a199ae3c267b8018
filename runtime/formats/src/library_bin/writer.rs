//! The writer of import trees.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use super::{FORMAT, LIBRARY_KIND};
use crate::stream::put_u64;

/// The reason that a tree cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// A second entry for the library itself.
    SecondLibrary,
    /// A module with an empty kind, or with the library's kind.
    InvalidKind(String),
    /// A module with an empty payload: the stock library refuses to load it.
    EmptyPayload {
        /// The module's kind.
        kind: String,
    },
    /// An import of a module that was not added.
    UnknownModule {
        /// The index of the module.
        index: usize,
        /// Number of modules.
        modules: usize,
    },
    /// An import of the module itself or of one that was added before it.
    NotForward {
        /// The importing module.
        parent: usize,
        /// The imported module.
        child: usize,
    },
}

impl fmt::Display for WriteError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT}: ")?;
        match self {
            Self::SecondLibrary => write!(f, "the library itself is already in the import tree"),
            Self::InvalidKind(kind) => write!(f, "\"{kind}\" is not a module kind"),
            Self::EmptyPayload { kind } => {
                write!(f, "the module of kind \"{kind}\" is empty; the stock library cannot load it")
            }
            Self::UnknownModule { index, modules } => {
                write!(f, "import of module {index}, but there are only {modules} modules")
            }
            Self::NotForward { parent, child } => {
                write!(f, "module {parent} imports module {child}; imports must be added after their importer")
            }
        }
    }
}

impl std::error::Error for WriteError {}

/// The source of a module's content.
#[derive(Clone, Copy)]
enum Content<'a> {
    Library,
    Bytes(&'a [u8]),
    /// The number of bytes, and the closure that writes them.
    Stream(u64, &'a dyn Fn(&mut dyn io::Write) -> io::Result<()>),
}

impl Content<'_> {
    /// Number of bytes of length field and payload.
    #[inline]
    fn size(&self) -> usize {
        match self {
            Self::Library => 0,
            Self::Bytes(bytes) => 8 + bytes.len(),
            Self::Stream(size, _) => 8 + *size as usize,
        }
    }
}

/// Builds the blob. The first module that is added is the root.
#[derive(Clone, Default)]
pub struct LibraryBinWriter<'a> {
    modules: Vec<(&'a str, Content<'a>)>,
    library: Option<usize>,
    imports: Vec<BTreeSet<usize>>,
}

impl fmt::Debug for LibraryBinWriter<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.modules.iter().map(|(kind, _)| *kind).collect();
        f.debug_struct("LibraryBinWriter").field("kinds", &kinds).field("imports", &self.imports).finish()
    }
}

impl<'a> LibraryBinWriter<'a> {
    /// Creates an empty tree.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the entry of the shared library itself; returns its index.
    #[inline]
    pub fn add_library(&mut self) -> Result<usize, WriteError> {
        if self.library.is_some() {
            return Err(WriteError::SecondLibrary);
        }
        let index = self.push(LIBRARY_KIND, Content::Library);
        self.library = Some(index);
        Ok(index)
    }

    /// Adds a module; returns its index. The payload is borrowed until the blob is written.
    #[inline]
    pub fn add_module(&mut self, kind: &'a str, payload: &'a [u8]) -> Result<usize, WriteError> {
        self.add(kind, Content::Bytes(payload), payload.is_empty())
    }

    /// Adds a module whose payload of `size` bytes is only generated when the blob is written, such
    /// as the content of a file; returns its index.
    ///
    /// Writing the blob fails if `write` writes a different number of bytes.
    #[inline]
    pub fn add_stream(
        &mut self,
        kind: &'a str,
        size: u64,
        write: &'a dyn Fn(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<usize, WriteError> {
        self.add(kind, Content::Stream(size, write), size == 0)
    }

    #[inline]
    fn add(&mut self, kind: &'a str, content: Content<'a>, is_empty: bool) -> Result<usize, WriteError> {
        if kind.is_empty() || kind == LIBRARY_KIND {
            return Err(WriteError::InvalidKind(kind.to_owned()));
        }
        if is_empty {
            return Err(WriteError::EmptyPayload { kind: kind.to_owned() });
        }
        Ok(self.push(kind, content))
    }

    #[inline]
    fn push(&mut self, kind: &'a str, content: Content<'a>) -> usize {
        self.modules.push((kind, content));
        self.imports.push(BTreeSet::new());
        self.modules.len() - 1
    }

    /// Makes module `parent` import module `child`, which was added later. Repeating an import has
    /// no effect.
    #[inline]
    pub fn import(&mut self, parent: usize, child: usize) -> Result<(), WriteError> {
        let modules = self.modules.len();
        if let Some(index) = [parent, child].into_iter().find(|&index| index >= modules) {
            return Err(WriteError::UnknownModule { index, modules });
        }
        if child <= parent {
            return Err(WriteError::NotForward { parent, child });
        }
        self.imports[parent].insert(child);
        Ok(())
    }

    /// Returns the bytes between the size field and the first module.
    #[inline]
    fn tree(&self) -> Vec<u8> {
        let mut tree = Vec::with_capacity(32 * (self.modules.len() + 1));
        put_u64(&mut tree, self.modules.len() as u64 + 1);
        let mut row = 0;
        put_u64(&mut tree, row);
        for imports in &self.imports {
            row += imports.len() as u64;
            put_u64(&mut tree, row);
        }
        put_u64(&mut tree, row);
        for child in self.imports.iter().flatten() {
            put_u64(&mut tree, *child as u64);
        }
        tree
    }

    /// Size of the blob in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        let modules = self.modules.iter().map(|(kind, content)| 8 + kind.len() + content.size());
        let tree = 3 + self.modules.len() + self.imports.iter().map(BTreeSet::len).sum::<usize>();
        8 + 8 * tree + modules.sum::<usize>()
    }

    /// Writes the blob without copying the payloads.
    ///
    /// # Errors
    /// Returns the errors of `out` and of the streams, and `InvalidData` if a stream has a
    /// different size than declared.
    #[inline]
    pub fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&(self.size() as u64 - 8).to_le_bytes())?;
        out.write_all(&self.tree())?;
        for (kind, content) in &self.modules {
            out.write_all(&(kind.len() as u64).to_le_bytes())?;
            out.write_all(kind.as_bytes())?;
            match content {
                Content::Library => {}
                Content::Bytes(bytes) => {
                    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
                    out.write_all(bytes)?;
                }
                Content::Stream(size, write) => {
                    out.write_all(&size.to_le_bytes())?;
                    let mut counted = Counted { out, count: 0 };
                    write(&mut counted)?;
                    if counted.count != *size {
                        let problem = format!("a payload of kind \"{kind}\" has {} bytes, not {size}", counted.count);
                        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the blob.
    ///
    /// # Errors
    /// Returns the errors of the streams. Infallible without streams.
    #[inline]
    pub fn try_to_vec(&self) -> io::Result<Vec<u8>> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.size())?;
        self.write_to(&mut blob)?;
        Ok(blob)
    }

    /// Returns the blob of a tree without streams. With streams it may be truncated;
    /// [`LibraryBinWriter::try_to_vec`] returns the error.
    #[inline]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut blob = Vec::with_capacity(self.size());
        // Writing into a Vec does not fail.
        let _ = self.write_to(&mut blob);
        blob
    }
}

/// Counts the bytes that are written through it.
struct Counted<'a> {
    out: &'a mut dyn io::Write,
    count: u64,
}

impl io::Write for Counted<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
