//! An object with data that other objects of the library share. It is written in pieces, because it
//! may be as large as the model that it belongs to.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use kernpack_formats::export::Target;

use crate::pack::object_packer::{Definition, object_of};

/// Writes an object that defines `symbol`, which is not visible outside the library, as the
/// concatenation of these pieces of `size` bytes in total.
///
/// # Errors
/// Returns an error if objects are not supported for the machine, or if a file cannot be written.
pub(crate) fn write<'a>(
    path: &Path,
    symbol: &str,
    size: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    target: &Target,
    alignment: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    // Zeros that are never touched, so that they take no memory: the object writer needs the data
    // in one piece.
    let stand_in = vec![0_u8; size];
    let object = object_of(&[Definition::internal(symbol)], &stand_in, target, alignment)?;
    let mut out = Substituting { out: BufWriter::new(File::create(path)?), stand_in: &stand_in, pieces: Some(pieces) };
    object.write_stream(&mut out)?;
    // Otherwise the writer split them.
    if size > 0 && out.pieces.is_some() {
        return Err("the data was not written in one piece".into());
    }
    Ok(out.out.flush()?)
}

/// Writes the pieces in place of the stand-in, and everything else unchanged.
struct Substituting<'a, W, I> {
    out: W,
    stand_in: &'a [u8],
    pieces: Option<I>,
}

impl<'a, W: Write, I: Iterator<Item = &'a [u8]>> Write for Substituting<'_, W, I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_stand_in = bytes.len() == self.stand_in.len() && bytes.as_ptr() == self.stand_in.as_ptr();
        let Some(pieces) = self.pieces.take_if(|_| is_stand_in) else { return self.out.write(bytes) };
        let mut left = bytes.len();
        for piece in pieces {
            left = left.checked_sub(piece.len()).ok_or_else(|| io::Error::other("more data than was announced"))?;
            self.out.write_all(piece)?;
        }
        if left > 0 {
            return Err(io::Error::other(format!("{left} bytes less data than was announced")));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolScope};

    use super::*;

    #[test]
    fn the_pieces_are_the_data_of_the_symbol() {
        let path = std::env::temp_dir().join(format!("kernpack-data-object-{}.o", std::process::id()));
        let pieces: [&[u8]; 4] = [&[1; 70], &[], &[0; 58], &[2; 5]];
        let size = pieces.iter().map(|piece| piece.len()).sum();
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"] {
            let target = Target::of_triple(triple).unwrap();
            write(&path, "weights", size, pieces.into_iter(), &target, 64).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let file = object::File::parse(bytes.as_slice()).unwrap();
            let name = target.symbol_name("weights");
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(&name)).unwrap();
            assert_eq!(symbol.scope(), SymbolScope::Linkage);
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            assert_eq!((section.align(), section.data().unwrap()), (64, pieces.concat().as_slice()), "{triple}");
        }
        let target = Target::of_triple("x86_64-unknown-linux-gnu").unwrap();
        for wrong in [size - 1, size + 1] {
            assert!(write(&path, "weights", wrong, pieces.into_iter(), &target, 64).is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
