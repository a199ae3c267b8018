//! Reader and writer of `__tvm_ffi__library_bin`: the import tree that travels inside a shared library.
//!
//! ```text
//! u64 number of bytes that follow
//! u64 n + 1, then n + 1 row pointers (u64) into the import list
//! u64 m, then m module indices (u64): the imports of module i are those from row pointer i to row pointer i + 1
//! n times: kind (u64 length, bytes), and payload (u64 length, bytes) unless the kind is "_lib"
//! ```
//!
//! Integers are little endian and unaligned. Module 0 is the root; `_lib` stands for the shared library itself, at
//! most once. A module imports only modules after itself, so the tree has no cycles.
//!
//! ```
//! use kernpack::module::library_bin::{LibraryBin, LibraryBinWriter};
//!
//! let mut writer = LibraryBinWriter::new();
//! let library = writer.add_library()?;
//! let image = writer.add_module("cuda", b"payload")?;
//! writer.import(library, image)?;
//! let blob = writer.to_vec();
//!
//! let tree = LibraryBin::parse(&blob)?;
//! assert_eq!(tree.imports(0).collect::<Vec<_>>(), [1]);
//! assert_eq!(tree.modules()[1].kind(), "cuda");
//! assert_eq!(tree.modules()[1].payload(), Some(&b"payload"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use super::stream::{StreamError, StreamReader, put_u64};

/// The kind that marks the shared library's own place in the tree.
pub const LIBRARY_KIND: &str = "_lib";

/// Name of the symbol that holds the blob.
pub const LIBRARY_BIN_SYMBOL: &str = "__tvm_ffi__library_bin";

const FORMAT: &str = "library_bin";

/// A parsed import tree; payloads are borrowed from the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryBin<'a> {
    modules: Vec<Entry<'a>>,
    /// `modules.len() + 1` row pointers, ascending, within `children`.
    rows: Vec<usize>,
    children: Vec<usize>,
}

/// One module of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    kind: &'a str,
    payload: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The module kind, which names its loader: `ffi.Module.load_from_bytes.<kind>`.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// What the loader receives; `None` for the library itself.
    pub fn payload(&self) -> Option<&'a [u8]> {
        self.payload
    }

    /// Whether this is the shared library itself.
    pub fn is_library(&self) -> bool {
        self.payload.is_none()
    }
}

impl<'a> LibraryBin<'a> {
    /// Size of the blob whose first 8 bytes are `header`: what a loader that has only an address may read.
    pub fn total_size(header: [u8; 8]) -> Result<usize, StreamError> {
        let following = u64::from_le_bytes(header);
        usize::try_from(following)
            .ok()
            .and_then(|following| following.checked_add(8))
            .filter(|&total| isize::try_from(total).is_ok())
            .ok_or_else(|| {
                StreamError::new(
                    FORMAT,
                    &"size",
                    0,
                    format_args!("claims {following} bytes, more than an address space"),
                )
            })
    }

    /// Parses a whole blob, size field included. `bytes` ends where the blob ends.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new(FORMAT, bytes);
        let following = reader.u64(&"size")?;
        if following != reader.remaining() as u64 {
            let problem = format_args!("says that {following} bytes follow, but {} do", reader.remaining());
            return Err(reader.error_at(0, &"size", problem));
        }
        let (rows, rows_at) = indices(&mut reader, &"row pointers")?;
        let Some(num_modules) = rows.len().checked_sub(1).filter(|&n| n > 0) else {
            return Err(reader.error_at(rows_at, &"row pointers", format_args!("no module, so no root")));
        };
        let (children, children_at) = indices(&mut reader, &"import list")?;
        if rows.first() != Some(&0) || rows.last() != Some(&children.len()) || !rows.is_sorted() {
            let problem = format_args!("must ascend from 0 to {}, the length of the import list", children.len());
            return Err(reader.error_at(rows_at, &"row pointers", problem));
        }
        check_imports(&rows, &children).map_err(|(index, problem)| {
            reader.error_at(children_at + 8 * index, &"import list", format_args!("{problem}"))
        })?;

        // A module takes 8 bytes at the least, so a lying count fails before much is allocated.
        if num_modules > reader.remaining() / 8 {
            let problem = format_args!("{num_modules} modules do not fit into the {} bytes left", reader.remaining());
            return Err(reader.error(&"modules", problem));
        }
        let mut modules = Vec::with_capacity(num_modules);
        let mut library = None;
        for index in 0..num_modules {
            let start = reader.offset();
            let kind = reader.string(&format_args!("kind of module {index}"))?;
            if kind.is_empty() {
                return Err(reader.error_at(start, &format_args!("kind of module {index}"), format_args!("is empty")));
            }
            if kind == LIBRARY_KIND {
                if let Some(first) = library.replace(index) {
                    let problem =
                        format_args!("is \"{LIBRARY_KIND}\", as module {first} is already; one library has one place");
                    return Err(reader.error_at(start, &format_args!("kind of module {index}"), problem));
                }
                modules.push(Entry { kind, payload: None });
                continue;
            }
            let structure = format_args!("payload of module {index} (kind \"{kind}\")");
            let start = reader.offset();
            let payload = reader.bytes(&structure)?;
            if payload.is_empty() {
                return Err(reader.error_at(start, &structure, format_args!("is empty, which no loader accepts")));
            }
            modules.push(Entry { kind, payload: Some(payload) });
        }
        reader.finish(&"modules")?;
        Ok(Self { modules, rows, children })
    }

    /// The modules; the first is the root.
    pub fn modules(&self) -> &[Entry<'a>] {
        &self.modules
    }

    /// Indices of the modules that module `index` imports, all greater than `index`. Empty for an index out of range.
    pub fn imports(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.rows.get(index).zip(self.rows.get(index + 1));
        row.and_then(|(&from, &to)| self.children.get(from..to)).unwrap_or_default().iter().copied()
    }

    /// Index of the shared library itself, if it is in the tree.
    pub fn library(&self) -> Option<usize> {
        self.modules.iter().position(Entry::is_library)
    }
}

/// A vector of indices, and where its first item is.
fn indices(reader: &mut StreamReader<'_>, structure: &dyn fmt::Display) -> Result<(Vec<usize>, usize), StreamError> {
    let count = reader.count(8, structure)?;
    let start = reader.offset();
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.offset();
        let value = reader.u64(structure)?;
        let value = usize::try_from(value)
            .map_err(|_| reader.error_at(at, structure, format_args!("index {value} is too large for this machine")))?;
        values.push(value);
    }
    Ok((values, start))
}

/// Checks range, order and uniqueness; an error is the index into `children` and what is wrong there.
fn check_imports(rows: &[usize], children: &[usize]) -> Result<(), (usize, String)> {
    let num_modules = rows.len() - 1;
    // For every module the last one that imported it, so that a list of any length is checked in one pass.
    let mut imported_by = vec![usize::MAX; if children.is_empty() { 0 } else { num_modules }];
    for (module, row) in rows.windows(2).enumerate() {
        for (index, &child) in children.iter().enumerate().take(row[1]).skip(row[0]) {
            if child >= num_modules {
                let problem =
                    format!("module {module} imports module {child}, but there are only {num_modules} modules");
                return Err((index, problem));
            }
            if child <= module {
                let problem = format!("module {module} imports module {child}: a cycle; imports must come later");
                return Err((index, problem));
            }
            if imported_by[child] == module {
                return Err((index, format!("module {module} imports module {child} twice")));
            }
            imported_by[child] = module;
        }
    }
    Ok(())
}

/// Why a tree can not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// A second place for the library itself.
    SecondLibrary,
    /// A module without a kind, or one that claims the library's kind.
    InvalidKind(String),
    /// A module with nothing in it: stock hosts refuse to load it.
    EmptyPayload {
        /// The module's kind.
        kind: String,
    },
    /// An import that names a module which was not added.
    UnknownModule {
        /// The index that was named.
        index: usize,
        /// How many modules there are.
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT}: ")?;
        match self {
            Self::SecondLibrary => write!(f, "the library itself is already in the import tree"),
            Self::InvalidKind(kind) => write!(f, "\"{kind}\" is no module kind"),
            Self::EmptyPayload { kind } => {
                write!(f, "the module of kind \"{kind}\" is empty; stock hosts can not load it")
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

/// What a module of a tree is written from.
#[derive(Clone, Copy)]
enum Content<'a> {
    Library,
    Bytes(&'a [u8]),
    /// So many bytes, from whoever writes them.
    Stream(u64, &'a dyn Fn(&mut dyn io::Write) -> io::Result<()>),
}

impl Content<'_> {
    /// Bytes of length and payload.
    fn size(&self) -> usize {
        match self {
            Self::Library => 0,
            Self::Bytes(bytes) => 8 + bytes.len(),
            Self::Stream(size, _) => 8 + *size as usize,
        }
    }
}

/// Builds the blob. The first module added is the root.
#[derive(Clone, Default)]
pub struct LibraryBinWriter<'a> {
    modules: Vec<(&'a str, Content<'a>)>,
    library: Option<usize>,
    imports: Vec<BTreeSet<usize>>,
}

impl fmt::Debug for LibraryBinWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.modules.iter().map(|(kind, _)| *kind).collect();
        f.debug_struct("LibraryBinWriter").field("kinds", &kinds).field("imports", &self.imports).finish()
    }
}

impl<'a> LibraryBinWriter<'a> {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the place of the shared library itself; returns its index.
    pub fn add_library(&mut self) -> Result<usize, WriteError> {
        if self.library.is_some() {
            return Err(WriteError::SecondLibrary);
        }
        let index = self.push(LIBRARY_KIND, Content::Library);
        self.library = Some(index);
        Ok(index)
    }

    /// Adds a module; returns its index. The payload is borrowed until the blob is written.
    pub fn add_module(&mut self, kind: &'a str, payload: &'a [u8]) -> Result<usize, WriteError> {
        self.add(kind, Content::Bytes(payload), payload.is_empty())
    }

    /// Adds a module whose payload of `size` bytes is only made when the blob is written, such as a file's content; returns its index.
    ///
    /// Writing the blob is an error when `write` writes another number of bytes.
    pub fn add_stream(
        &mut self,
        kind: &'a str,
        size: u64,
        write: &'a dyn Fn(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<usize, WriteError> {
        self.add(kind, Content::Stream(size, write), size == 0)
    }

    fn add(&mut self, kind: &'a str, content: Content<'a>, is_empty: bool) -> Result<usize, WriteError> {
        if kind.is_empty() || kind == LIBRARY_KIND {
            return Err(WriteError::InvalidKind(kind.to_owned()));
        }
        if is_empty {
            return Err(WriteError::EmptyPayload { kind: kind.to_owned() });
        }
        Ok(self.push(kind, content))
    }

    fn push(&mut self, kind: &'a str, content: Content<'a>) -> usize {
        self.modules.push((kind, content));
        self.imports.push(BTreeSet::new());
        self.modules.len() - 1
    }

    /// Makes module `parent` import module `child`, which was added later. Doing it twice is doing it once.
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

    /// Everything between the size field and the first module.
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
    pub fn size(&self) -> usize {
        let modules = self.modules.iter().map(|(kind, content)| 8 + kind.len() + content.size());
        let tree = 3 + self.modules.len() + self.imports.iter().map(BTreeSet::len).sum::<usize>();
        8 + 8 * tree + modules.sum::<usize>()
    }

    /// Writes the blob; the payloads are not copied on the way.
    ///
    /// # Errors
    /// What `out` and the streams report; `InvalidData` when a stream has another size than was said.
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

    /// The blob.
    ///
    /// # Errors
    /// What the streams report; none when there is none.
    pub fn try_to_vec(&self) -> io::Result<Vec<u8>> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.size())?;
        self.write_to(&mut blob)?;
        Ok(blob)
    }

    /// The blob of a tree without streams; with streams it may end early, and [`LibraryBinWriter::try_to_vec`] says why.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut blob = Vec::with_capacity(self.size());
        // Writing into a Vec does not fail.
        let _ = self.write_to(&mut blob);
        blob
    }
}

/// Counts what passes.
struct Counted<'a> {
    out: &'a mut dyn io::Write,
    count: u64,
}

impl io::Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
