//! The part of ELF that error messages need: the kind of a file, and the symbols that it exports.
//! Only for messages: a file that cannot be parsed leads to fewer details, never to an error of its
//! own. Source: the System V ABI, chapter 4.

/// The machine that an ELF file is for, or the reason that it is not a usable ELF file.
pub(in crate::module) enum FileKind {
    /// Too short, or without the magic number.
    NotElf,
    /// A 32-bit or big-endian file.
    OtherClass(&'static str),
    /// A 64-bit little-endian file for this machine number.
    Machine(u16),
}

const SHT_DYNSYM: u32 = 11;
const PT_LOAD: u32 = 1;
const PROGRAM_HEADER_SIZE: usize = 56;

/// Determines the kind of a file from its first bytes.
#[inline]
pub(in crate::module) fn file_kind(file: &[u8]) -> FileKind {
    if !file.starts_with(b"\x7fELF") {
        return FileKind::NotElf;
    }
    match (file.get(4), file.get(5)) {
        (Some(1), _) => FileKind::OtherClass("a 32-bit library"),
        (_, Some(2)) => FileKind::OtherClass("a big-endian library"),
        _ => number(file, 18, 2).map_or(FileKind::NotElf, |machine| FileKind::Machine(machine as u16)),
    }
}

/// Size of the header of a 64-bit file.
pub(in crate::module) const HEADER_SIZE: usize = 64;

/// Returns the offset and size of the program headers of a 64-bit little-endian file; `header`
/// contains its first [`HEADER_SIZE`] bytes.
#[inline]
pub(in crate::module) fn program_headers(header: &[u8]) -> Option<(u64, usize)> {
    let (entry_size, count) = (number(header, 0x36, 2)?, number(header, 0x38, 2)?);
    (entry_size == PROGRAM_HEADER_SIZE as u64).then_some(())?;
    Some((number(header, 0x20, 8)?, count as usize * PROGRAM_HEADER_SIZE))
}

/// Returns the minimum length of a file with these loadable segments. Reading a segment beyond the
/// end of the file ends the process.
#[inline]
pub(in crate::module) fn end_of_segments(program_headers: &[u8]) -> u64 {
    let end = |header: &[u8]| {
        let loadable = number(header, 0, 4)? == u64::from(PT_LOAD);
        Some(if loadable { number(header, 8, 8)?.saturating_add(number(header, 0x20, 8)?) } else { 0 })
    };
    program_headers.chunks_exact(PROGRAM_HEADER_SIZE).filter_map(end).max().unwrap_or(0)
}

/// Name of a machine number.
#[inline]
pub(in crate::module) fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86 (32-bit)".to_owned(),
        40 => "ARM (32-bit)".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        21 => "PowerPC64".to_owned(),
        258 => "LoongArch".to_owned(),
        other => format!("machine {other}"),
    }
}

/// Machine number of this process.
#[inline]
pub(in crate::module) const fn own_machine() -> u16 {
    if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else if cfg!(target_arch = "riscv64") {
        243
    } else {
        0
    }
}

/// Reads a little-endian number of `size` bytes.
#[inline]
fn number(file: &[u8], offset: usize, size: usize) -> Option<u64> {
    let bytes = file.get(offset..offset.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Names of the defined symbols in the dynamic symbol table of a 64-bit little-endian file.
#[inline]
pub(in crate::module) fn dynamic_symbols(file: &[u8]) -> Vec<&str> {
    symbols(file).unwrap_or_default()
}

#[inline]
fn symbols(file: &[u8]) -> Option<Vec<&str>> {
    let sections = number(file, 0x28, 8)? as usize;
    let section_size = number(file, 0x3a, 2)? as usize;
    let section_count = number(file, 0x3c, 2)? as usize;
    let section = |index: usize| file.get(sections.checked_add(index.checked_mul(section_size)?)?..);
    let table =
        (0..section_count).filter_map(section).find(|header| number(header, 4, 4) == Some(u64::from(SHT_DYNSYM)))?;
    let (start, size) = (number(table, 0x18, 8)? as usize, number(table, 0x20, 8)? as usize);
    let strings = section(number(table, 0x28, 4)? as usize)?;
    let strings_start = number(strings, 0x18, 8)? as usize;
    let entries = file.get(start..start.checked_add(size)?)?;
    let mut names = Vec::new();
    for entry in entries.chunks_exact(24) {
        let defined = number(entry, 6, 2) != Some(0);
        let Some(name) = number(entry, 0, 4).and_then(|offset| strings_start.checked_add(offset as usize)) else {
            continue;
        };
        let Some(rest) = file.get(name..) else { continue };
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { continue };
        if let (true, Ok(name)) = (defined, core::str::from_utf8(&rest[..end])) {
            names.push(name);
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_executable_is_understood() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        assert!(matches!(file_kind(&file), FileKind::Machine(machine) if machine == own_machine()));
        let (start, size) = program_headers(&file[..HEADER_SIZE]).unwrap();
        let end = end_of_segments(&file[start as usize..][..size]);
        assert!(end > start && end <= file.len() as u64);
    }

    #[test]
    fn garbage_gives_nothing() {
        assert!(matches!(file_kind(b"hello"), FileKind::NotElf));
        for len in 0..70 {
            let mut bytes = vec![0xff; len];
            for (byte, magic) in bytes.iter_mut().zip(b"\x7fELF\x02\x01") {
                *byte = *magic;
            }
            assert!(dynamic_symbols(&bytes).is_empty());
            assert!(program_headers(&bytes).is_none());
        }
    }
}
