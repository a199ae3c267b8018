//! Detects the format of an image's code and checks the length that its headers declare: the driver
//! does not receive the length.

use core::ops::Range;

use crate::Result;
use crate::function::did_you_mean;

/// The formats that the driver or NVRTC accept.
const FORMATS: [&str; 4] = ["fatbin", "cubin", "ptx", "cuda"];

/// First bytes of a fat binary, little endian.
const FATBIN_MAGIC: u32 = 0xba55_ed50;
/// First bytes of an ELF file.
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// The way in which code is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A fat binary or a cubin: the driver loads it.
    Binary,
    /// PTX: the driver compiles it.
    Ptx,
    /// CUDA C++: NVRTC compiles it.
    Source,
}

impl Format {
    /// Returns the format of that name.
    #[inline]
    pub(super) fn of(name: &str) -> Result<Self> {
        match name {
            "fatbin" | "cubin" => Ok(Self::Binary),
            "ptx" => Ok(Self::Ptx),
            "cuda" => Ok(Self::Source),
            _ => {
                let hint = did_you_mean(name, &mut FORMATS.into_iter());
                Err(crate::error!(
                    RuntimeError,
                    "a cuda module cannot have the format '{name}'; it is one of {}{hint}",
                    FORMATS.join(", ")
                ))
            }
        }
    }
}

/// Checks that a fat binary or cubin is complete.
///
/// # Errors
/// Returns a description of the problem.
#[inline]
pub(super) fn check(code: &[u8]) -> Result<(), String> {
    let (name, size) = if code.starts_with(&ELF_MAGIC) {
        ("cubin", cubin_size(code))
    } else if number(code, 0..4) == Some(u64::from(FATBIN_MAGIC)) {
        // u32 magic, u16 version, u16 size of this header, u64 size of the data after it.
        let header = number(code, 6..8);
        ("fat binary", header.zip(number(code, 8..16)).and_then(|(header, rest)| header.checked_add(rest)))
    } else {
        return Err(format!("its {} bytes are neither a fat binary nor a cubin", code.len()));
    };
    match size {
        Some(size) if size <= code.len() as u64 => Ok(()),
        Some(size) => Err(format!("the {name} is cut off: it has {size} bytes, but only {} are there", code.len())),
        None => Err(format!("the {name} is cut off in its header")),
    }
}

/// Returns the end of the last part of an ELF64 file that its headers describe.
#[inline]
fn cubin_size(code: &[u8]) -> Option<u64> {
    let (segments, sections) = (number(code, 0x20..0x28)?, number(code, 0x28..0x30)?);
    let (segment_size, segment_count) = (number(code, 0x36..0x38)?, number(code, 0x38..0x3a)?);
    let (section_size, section_count) = (number(code, 0x3a..0x3c)?, number(code, 0x3c..0x3e)?);
    let mut end = segments.checked_add(segment_size * segment_count)?;
    end = end.max(sections.checked_add(section_size * section_count)?);
    for index in 0..section_count {
        let start = usize::try_from(sections.checked_add(section_size * index)?).ok()?;
        let field = |at: usize, size: usize| number(code, start.checked_add(at)?..start.checked_add(at + size)?);
        let Some(kind) = field(4, 4) else { break };
        // A section of the type NOBITS does not occupy bytes of the file.
        if kind != 8
            && let (Some(offset), Some(size)) = (field(0x18, 8), field(0x20, 8))
        {
            end = end.max(offset.checked_add(size)?);
        }
    }
    Some(end)
}

/// Reads a little-endian number; None if the bytes end before it.
#[inline]
fn number(bytes: &[u8], range: Range<usize>) -> Option<u64> {
    Some(bytes.get(range)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fatbin(len: u64) -> Vec<u8> {
        let mut bytes = FATBIN_MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend(len.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    /// Builds an ELF file with one section of `size` bytes after the headers.
    fn cubin(size: u64) -> Vec<u8> {
        let mut bytes = vec![0; 0x40 + 0x40];
        bytes[..4].copy_from_slice(&ELF_MAGIC);
        bytes[0x28] = 0x40;
        bytes[0x3a] = 0x40;
        bytes[0x3c] = 1;
        bytes[0x40 + 0x18] = 0x80;
        bytes[0x40 + 0x20..0x40 + 0x28].copy_from_slice(&size.to_le_bytes());
        bytes.extend([7; 8]);
        bytes
    }

    #[test]
    fn whole_images_pass_and_others_are_named() {
        #[rustfmt::skip]
        let rows: &[(Vec<u8>, Result<(), &str>)] = &[
            (fatbin(8), Ok(())),
            (fatbin(7), Ok(())),
            (fatbin(9), Err("the fat binary is cut off: it has 25 bytes, but only 24 are there")),
            (fatbin(u64::MAX), Err("the fat binary is cut off in its header")),
            (fatbin(8)[..12].to_vec(), Err("the fat binary is cut off in its header")),
            (cubin(8), Ok(())),
            (cubin(9), Err("the cubin is cut off: it has 137 bytes, but only 136 are there")),
            (cubin(u64::MAX), Err("the cubin is cut off in its header")),
            (cubin(8)[..0x30].to_vec(), Err("the cubin is cut off in its header")),
            (cubin(8)[..0x50].to_vec(), Err("the cubin is cut off: it has 128 bytes, but only 80 are there")),
            (b"code".to_vec(), Err("its 4 bytes are neither a fat binary nor a cubin")),
            (vec![], Err("its 0 bytes are neither a fat binary nor a cubin")),
        ];
        for (bytes, expected) in rows {
            assert_eq!(check(bytes), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn no_bit_flip_panics() {
        for mut bytes in [fatbin(8), cubin(8)] {
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let _ = check(&bytes);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn formats_are_those_of_tvm() {
        for (name, format) in
            [("fatbin", Format::Binary), ("cubin", Format::Binary), ("ptx", Format::Ptx), ("cuda", Format::Source)]
        {
            assert_eq!(Format::of(name).unwrap(), format);
        }
        assert_eq!(
            Format::of("cubim").unwrap_err().message(),
            "a cuda module cannot have the format 'cubim'; it is one of fatbin, cubin, ptx, cuda; did you mean 'cubin'?"
        );
    }
}
