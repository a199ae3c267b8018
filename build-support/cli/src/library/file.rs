//! The ELF file: its exported symbols, and their bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kernpack::module::library_bin::LIBRARY_BIN_SYMBOL;
use object::elf::{DT_NEEDED, FileHeader64, STT_GNU_IFUNC};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSegment, ObjectSymbol, SymbolIndex};

use crate::Result;

/// Reads a regular file. Devices and pipes could be endless.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let problem = |text: &dyn std::fmt::Display| format!("cannot read {}: {text}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| problem(&error))?;
    if !metadata.is_file() {
        return Err(problem(&"not a regular file"));
    }
    let mut bytes = Vec::new();
    let size = usize::try_from(metadata.len()).map_err(|_| problem(&"it is larger than memory"))?;
    bytes.try_reserve_exact(size).map_err(|error| problem(&error))?;
    // At most its size, because it may grow in the meantime.
    File::open(path)
        .and_then(|file| file.take(metadata.len()).read_to_end(&mut bytes))
        .map_err(|error| problem(&error))?;
    Ok(bytes)
}

/// A 64-bit little-endian ELF file.
pub(crate) struct LibraryFile<'a> {
    elf: ElfFile64<'a, LittleEndian>,
    bytes: &'a [u8],
    /// Defined names of the dynamic symbol table, in its order, with their addresses.
    pub(crate) symbols: Vec<(&'a str, u64)>,
}

impl<'a> LibraryFile<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err("not a shared library (no ELF header)".to_owned());
        }
        if bytes.get(4) == Some(&1) || bytes.get(5) == Some(&2) {
            return Err("it is a 32-bit or big-endian file; only 64-bit little-endian ones are read".to_owned());
        }
        let broken = |error: object::Error| format!("its ELF structure is broken or cut off: {error}");
        let elf = ElfFile64::parse(bytes).map_err(broken)?;
        let mut symbols = Vec::new();
        // The names of a valid file do not overlap. In a hostile file they may, and take the square
        // of its size.
        let mut budget = bytes.len().saturating_mul(4);
        for symbol in elf.dynamic_symbols() {
            let name = symbol.name_bytes().map_err(broken)?;
            budget = budget
                .checked_sub(name.len())
                .ok_or("its symbol table is corrupt: the names are longer than the file")?;
            // An import tree that is an indirect function, which is resolved when the library is
            // loaded, is not data.
            let is_resolver = symbol.elf_symbol().st_type() == STT_GNU_IFUNC && name == LIBRARY_BIN_SYMBOL.as_bytes();
            if symbol.is_undefined() || is_resolver {
                continue;
            }
            if let Ok(name) = str::from_utf8(name) {
                symbols.push((name, symbol.address()));
            }
        }
        Ok(Self { elf, bytes, symbols })
    }

    pub(crate) fn machine(&self) -> String {
        format!("{:?}", self.elf.architecture()).to_lowercase()
    }

    /// Returns the bytes of the file from the symbol's address to the end of its segment. `None`
    /// without such a symbol.
    pub(crate) fn data_from(&self, symbol: &str) -> Option<Result<&'a [u8]>> {
        let &(_, address) = self.symbols.iter().find(|(name, _)| *name == symbol)?;
        let found = self.elf.segments().find_map(|segment| {
            let offset = usize::try_from(address.checked_sub(segment.address())?).ok()?;
            segment.data().ok()?.get(offset..).filter(|rest| !rest.is_empty())
        });
        Some(found.ok_or_else(|| format!("its {symbol} points outside the file; the file is corrupt or cut off")))
    }

    /// Returns the libraries that it needs from the dynamic linker.
    pub(crate) fn needed(&self) -> Vec<String> {
        let endian = LittleEndian;
        let header: &FileHeader64<LittleEndian> = self.elf.elf_header();
        let Ok(sections) = header.sections(endian, self.bytes) else { return Vec::new() };
        let Ok(Some((entries, link))) = sections.dynamic(endian, self.bytes) else { return Vec::new() };
        let Ok(strings) = sections.strings(endian, self.bytes, link) else { return Vec::new() };
        let needed = entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED);
        // More would be an attack.
        let needed = needed.take(256).filter_map(|entry| entry.string(endian, strings).ok());
        needed.filter(|name| name.len() < 4096).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The symbol versions that the library requires of other libraries, such as `GLIBC_2.17` of
    /// `libc.so.6`, with the symbols that require them.
    pub(crate) fn versions(&self) -> Result<Vec<Requirement>> {
        let broken = |error: object::Error| format!("its symbol versions are broken: {error}");
        let endian = LittleEndian;
        let header: &FileHeader64<LittleEndian> = self.elf.elf_header();
        let sections = header.sections(endian, self.bytes).map_err(broken)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found: Vec<Requirement> = Vec::new();
        let Some((mut needs, link)) = sections.gnu_verneed(endian, self.bytes).map_err(broken)? else {
            return Ok(found);
        };
        let strings = sections.strings(endian, self.bytes, link).map_err(broken)?;
        while let Some((need, mut versions)) = needs.next().map_err(broken)? {
            let library = text(need.file(endian, strings).map_err(broken)?);
            while let Some(version) = versions.next().map_err(broken)? {
                let version = text(version.name(endian, strings).map_err(broken)?);
                found.push(Requirement { library: library.clone(), version, symbols: Vec::new() });
                if found.len() > 4096 {
                    return Err("its symbol versions are broken: there are more than 4096".to_owned());
                }
            }
        }
        let Some(table) = sections.versions(endian, self.bytes).map_err(broken)? else { return Ok(found) };
        for symbol in self.elf.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
            let index = table.version_index(endian, SymbolIndex(symbol.index().0));
            let Some(version) = table.version(index.index()).map_err(broken)? else { continue };
            let (name, file) = (text(version.name()), text(version.file().unwrap_or_default()));
            let asked = found.iter_mut().find(|asked| asked.version == name && asked.library == file);
            if let (Some(asked), Ok(name)) = (asked, symbol.name()) {
                asked.symbols.push(name.to_owned());
            }
        }
        Ok(found)
    }
}

/// A symbol version of another library.
#[derive(Debug)]
pub(crate) struct Requirement {
    /// The name of the library.
    pub(crate) library: String,
    /// Such as `GLIBC_2.17`.
    pub(crate) version: String,
    /// The symbols that require it.
    pub(crate) symbols: Vec<String>,
}
