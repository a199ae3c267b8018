//! Writes a file of weights.

use std::io::{self, Seek, SeekFrom, Write};

use super::{CONTENT, Digest, Digester, ENTRY, HEADER, MAGIC, VERSION, aligned};

/// The weights of a CPU level.
pub struct Section<'a> {
    /// The number of bytes.
    pub size: u64,
    /// The index of an earlier level with the same bytes.
    pub same_as: Option<usize>,
    /// The bytes, unless they are those of an earlier level.
    pub pieces: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
}

/// Writes a file at the start of `out`: the weights of a model for code with this digest. Returns
/// the digest of the content.
///
/// # Errors
/// Returns an error if writing fails, or if the pieces of a section do not have its size.
pub fn write<'a>(
    out: &mut (impl Write + Seek),
    name: &str,
    code: Digest,
    sections: impl IntoIterator<Item = Section<'a>>,
) -> io::Result<Digest> {
    let sections: Vec<Section<'a>> = sections.into_iter().collect();
    let large = || io::Error::other("the weights are too large for a file");
    let mut end = (HEADER + ENTRY * sections.len() + name.len()) as u64;
    let mut table: Vec<(u64, u64)> = Vec::new();
    for section in &sections {
        let known = section.same_as.and_then(|earlier| table.get(earlier).copied());
        let entry = match known {
            Some(entry) if entry.1 == section.size => entry,
            Some(_) => return Err(io::Error::other("levels that share weights have different sizes")),
            None => {
                let offset = aligned(end).ok_or_else(large)?;
                end = offset.checked_add(section.size).ok_or_else(large)?;
                (offset, section.size)
            }
        };
        table.push(entry);
    }
    let count = u32::try_from(sections.len()).map_err(|_| io::Error::other("too many levels"))?;
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&code.to_bytes())?;
    // The digest of the content follows below.
    out.write_all(&[0; 16])?;
    let mut content = Content { out, digester: Digester::default(), position: CONTENT as u64 };
    content.write(&end.to_le_bytes())?;
    content.write(&(name.len() as u64).to_le_bytes())?;
    for (offset, size) in &table {
        content.write(&offset.to_le_bytes())?;
        content.write(&size.to_le_bytes())?;
    }
    content.write(name.as_bytes())?;
    for (section, (offset, size)) in sections.into_iter().zip(table) {
        if section.same_as.is_some() {
            continue;
        }
        content.fill(offset)?;
        for piece in section.pieces {
            content.write(piece)?;
        }
        if content.position != offset + size {
            let found = content.position - offset;
            return Err(io::Error::other(format!("the weights of a level have {found} bytes instead of {size}")));
        }
    }
    let digest = content.digester.finish();
    out.seek(SeekFrom::Start(32))?;
    out.write_all(&digest.to_bytes())?;
    Ok(digest)
}

/// Writes bytes and adds them to the digest.
struct Content<'a, W> {
    out: &'a mut W,
    digester: Digester,
    position: u64,
}

impl<W: Write> Content<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digester.update(bytes);
        self.position += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes zeros up to this offset.
    fn fill(&mut self, offset: u64) -> io::Result<()> {
        while self.position < offset {
            self.write(&[0])?;
        }
        Ok(())
    }
}
