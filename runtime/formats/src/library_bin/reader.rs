//! The reader of import trees.

use std::fmt;

use super::{FORMAT, LIBRARY_KIND};
use crate::stream::{StreamError, StreamReader};

/// A parsed import tree; payloads are borrowed from the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryBin<'a> {
    modules: Vec<Entry<'a>>,
    /// `modules.len() + 1` row pointers in ascending order, all within `children`.
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
    /// The module kind, which determines its loader: `ffi.Module.load_from_bytes.<kind>`.
    #[inline]
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// The payload for the module's loader; `None` for the library itself.
    #[inline]
    pub fn payload(&self) -> Option<&'a [u8]> {
        self.payload
    }

    /// Returns whether this is the shared library itself.
    #[inline]
    pub fn is_library(&self) -> bool {
        self.payload.is_none()
    }
}

impl<'a> LibraryBin<'a> {
    /// Returns the size of the blob whose first 8 bytes are `header`, for loaders that only have an
    /// address.
    #[inline]
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

    /// Parses a whole blob including its size field. `bytes` ends where the blob ends.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StreamError> {
        let mut reader = StreamReader::new(FORMAT, bytes);
        let following = reader.u64(&"size")?;
        if following != reader.remaining() as u64 {
            return Err(reader.error_at(
                0,
                &"size",
                format_args!("says that {following} bytes follow, but {} do", reader.remaining()),
            ));
        }
        let (rows, rows_at) = indices(&mut reader, &"row pointers")?;
        let Some(num_modules) = rows.len().checked_sub(1).filter(|&n| n > 0) else {
            return Err(reader.error_at(rows_at, &"row pointers", format_args!("no module, so no root")));
        };
        let (children, children_at) = indices(&mut reader, &"import list")?;
        if rows.first() != Some(&0) || rows.last() != Some(&children.len()) || !rows.is_sorted() {
            return Err(reader.error_at(
                rows_at,
                &"row pointers",
                format_args!("must ascend from 0 to {}, the length of the import list", children.len()),
            ));
        }
        check_imports(&rows, &children).map_err(|(index, problem)| {
            reader.error_at(children_at + 8 * index, &"import list", format_args!("{problem}"))
        })?;

        // A module takes at least 8 bytes, so a forged count fails before much memory is allocated.
        if num_modules > reader.remaining() / 8 {
            return Err(reader.error(
                &"modules",
                format_args!("{num_modules} modules do not fit into the {} bytes left", reader.remaining()),
            ));
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
                    return Err(reader.error_at(
                        start,
                        &format_args!("kind of module {index}"),
                        format_args!("is \"{LIBRARY_KIND}\", as module {first} is already; one library has one place"),
                    ));
                }
                modules.push(Entry { kind, payload: None });
                continue;
            }
            let start = reader.offset();
            let payload = reader.bytes(&format_args!("payload of module {index} (kind \"{kind}\")"))?;
            if payload.is_empty() {
                return Err(reader.error_at(
                    start,
                    &format_args!("payload of module {index} (kind \"{kind}\")"),
                    format_args!("is empty, which no loader accepts"),
                ));
            }
            modules.push(Entry { kind, payload: Some(payload) });
        }
        reader.finish(&"modules")?;
        Ok(Self { modules, rows, children })
    }

    /// The modules; the first is the root.
    #[inline]
    pub fn modules(&self) -> &[Entry<'a>] {
        &self.modules
    }

    /// Indices of the modules that module `index` imports, all greater than `index`. Empty for an
    /// index out of range.
    #[inline]
    pub fn imports(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.rows.get(index).zip(self.rows.get(index + 1));
        row.and_then(|(&from, &to)| self.children.get(from..to)).unwrap_or_default().iter().copied()
    }

    /// Index of the shared library itself, if it is in the tree.
    #[inline]
    pub fn library(&self) -> Option<usize> {
        self.modules.iter().position(Entry::is_library)
    }
}

/// Reads a vector of indices, and returns it with the offset of its first item.
#[inline]
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

/// Checks range, order and uniqueness. The error is the index into `children` and a description of
/// the problem.
#[inline]
fn check_imports(rows: &[usize], children: &[usize]) -> Result<(), (usize, String)> {
    let num_modules = rows.len() - 1;
    // The last importer of each module, so that a list of any length is checked in one pass.
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
