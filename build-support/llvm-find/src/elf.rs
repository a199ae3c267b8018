//! Reads the dynamic symbols of a shared library in the ELF format.
//!
//! libLLVM is larger than 100 MB; only the headers and three tables of it are read.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Larger tables are rejected. The largest table of libLLVM has 3 MB.
const MOST: u64 = 256 << 20;

const SHT_DYNSYM: u32 = 11;
const SHT_GNU_VERDEF: u32 = 0x6fff_fffd;

/// The reason why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The file is not ELF.
    OtherFormat,
    /// The file is ELF, but malformed in this way.
    Malformed(&'static str),
    /// An error of the system.
    Io(String),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFormat => f.write_str("it is not a shared library in the ELF format"),
            Self::Malformed(text) => write!(f, "its ELF file is malformed: {text}"),
            Self::Io(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ElfError {}

/// A section's header: type, offset, size and linked section.
struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

/// The headers of a file, and the bytes of its tables.
pub struct Elf {
    is_64: bool,
    is_little: bool,
    machine: u16,
    symbols: Vec<u8>,
    names: Vec<u8>,
    versions: Vec<u8>,
    version_names: Vec<u8>,
}

/// The fields of a table, by their places.
struct Fields<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl Fields<'_> {
    fn number(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.is_little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.number(at, 2).and_then(|value| value.try_into().ok())
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.number(at, 4).and_then(|value| value.try_into().ok())
    }
}

/// Returns the string at an offset of a table.
fn text(names: &[u8], at: u32) -> Option<&str> {
    let rest = names.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn bytes_at(file: &mut File, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
    if size > MOST {
        return Err(ElfError::Malformed("a table is larger than 256 MB"));
    }
    let io = |error: std::io::Error| ElfError::Io(error.to_string());
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(io)?;
    match bytes.len() as u64 == size {
        true => Ok(bytes),
        false => Err(ElfError::Malformed("a table ends behind the end of the file")),
    }
}

impl Elf {
    /// Reads the headers and the dynamic symbols.
    ///
    /// # Errors
    /// Returns an error if the file is not ELF, is malformed, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let io = |error: std::io::Error| ElfError::Io(error.to_string());
        let mut file = File::open(path).map_err(io)?;
        let mut header = Vec::new();
        (&mut file).take(64).read_to_end(&mut header).map_err(io)?;
        if !header.starts_with(b"\x7fELF") || header.len() < 52 {
            return Err(ElfError::OtherFormat);
        }
        let (is_64, is_little) = (header[4] == 2, header[5] == 1);
        let fields = Fields { bytes: &header, is_little };
        let short = ElfError::Malformed("the header is too short");
        let machine = fields.u16(18).ok_or(short.clone())?;
        let (offset, rest) = match is_64 {
            true => (fields.number(40, 8), 58),
            false => (fields.number(32, 4), 46),
        };
        let (Some(offset), Some(size), Some(count)) = (offset, fields.u16(rest), fields.u16(rest + 2)) else {
            return Err(short);
        };
        let table = bytes_at(&mut file, offset, u64::from(size) * u64::from(count))?;
        let mut sections = Vec::new();
        for header in table.chunks_exact(usize::from(size).max(1)) {
            let fields = Fields { bytes: header, is_little };
            let section = match is_64 {
                true => (fields.u32(4), fields.number(24, 8), fields.number(32, 8), fields.u32(40)),
                false => (fields.u32(4), fields.number(16, 4), fields.number(20, 4), fields.u32(24)),
            };
            let (Some(kind), Some(offset), Some(size), Some(link)) = section else {
                return Err(ElfError::Malformed("a section's header is too short"));
            };
            sections.push(Section { kind, offset, size, link });
        }
        let mut read = |kind: u32| {
            let Some(section) = sections.iter().find(|section| section.kind == kind) else {
                return Ok((Vec::new(), Vec::new()));
            };
            let names = usize::try_from(section.link).ok().and_then(|link| sections.get(link));
            let names = names.ok_or(ElfError::Malformed("a table without its names"))?;
            let bytes = bytes_at(&mut file, section.offset, section.size)?;
            Ok((bytes, bytes_at(&mut file, names.offset, names.size)?))
        };
        let (symbols, names) = read(SHT_DYNSYM)?;
        let (versions, version_names) = read(SHT_GNU_VERDEF)?;
        Ok(Self { is_64, is_little, machine, symbols, names, versions, version_names })
    }

    /// Returns the architecture in rustc's name for it.
    #[must_use]
    pub fn architecture(&self) -> String {
        let name = match (self.machine, self.is_64) {
            (3, _) => "x86",
            (62, true) => "x86_64",
            (40, _) => "arm",
            (183, _) => "aarch64",
            (243, true) => "riscv64",
            (243, false) => "riscv32",
            (22, _) => "s390x",
            (20, _) => "powerpc",
            (21, _) => "powerpc64",
            (258, _) => "loongarch64",
            (number, _) => return format!("the ELF machine {number}"),
        };
        name.to_owned()
    }

    /// Returns the sorted names of the exported symbols with this prefix.
    ///
    /// # Errors
    /// Returns an error for a malformed table.
    pub fn exports(&self, start: &str) -> Result<Vec<String>, ElfError> {
        self.dynamic_symbols(start, true)
    }

    /// Returns the sorted names of the symbols with this prefix that other libraries define.
    ///
    /// # Errors
    /// Returns an error for a malformed table.
    pub fn imports(&self, start: &str) -> Result<Vec<String>, ElfError> {
        self.dynamic_symbols(start, false)
    }

    /// Returns the size in bytes of an exported symbol.
    #[must_use]
    pub fn size_of(&self, symbol: &str) -> Option<u64> {
        let (size, section_at, size_at, bytes) = if self.is_64 { (24, 6, 16, 8) } else { (16, 14, 8, 4) };
        self.symbols.chunks_exact(size).find_map(|entry| {
            let fields = Fields { bytes: entry, is_little: self.is_little };
            let is_it = fields.u16(section_at)? != 0 && text(&self.names, fields.u32(0)?)? == symbol;
            is_it.then(|| fields.number(size_at, bytes))?
        })
    }

    fn dynamic_symbols(&self, start: &str, is_defined: bool) -> Result<Vec<String>, ElfError> {
        let (size, section_at) = if self.is_64 { (24, 6) } else { (16, 14) };
        let mut found = Vec::new();
        for symbol in self.symbols.chunks_exact(size) {
            let fields = Fields { bytes: symbol, is_little: self.is_little };
            let (Some(name), Some(section)) = (fields.u32(0), fields.u16(section_at)) else { continue };
            if (section != 0) != is_defined {
                continue;
            }
            let name = text(&self.names, name).ok_or(ElfError::Malformed("a symbol's name is outside of its table"))?;
            if name.starts_with(start) {
                found.push(name.to_owned());
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the names of the versions that the library defines, such as `LLVM_22.1`.
    ///
    /// # Errors
    /// Returns an error for a malformed table.
    pub fn version_names(&self) -> Result<Vec<String>, ElfError> {
        let fields = Fields { bytes: &self.versions, is_little: self.is_little };
        let malformed = ElfError::Malformed("the table of versions");
        let mut found = Vec::new();
        let mut at = 0_usize;
        while at < self.versions.len() {
            let entry = || {
                let aux = usize::try_from(fields.u32(at + 12)?).ok()?;
                let next = usize::try_from(fields.u32(at + 16)?).ok()?;
                Some((text(&self.version_names, fields.u32(at.checked_add(aux)?)?)?, next))
            };
            let (name, next) = entry().ok_or(malformed.clone())?;
            found.push(name.to_owned());
            if next == 0 {
                break;
            }
            at = at.checked_add(next).ok_or(malformed.clone())?;
        }
        Ok(found)
    }
}
