//! Packers: ways to turn the blob of an import tree into code that a compiler links.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::object_format::{BLOB_ALIGNMENT, LARGE_BLOB, ObjectFormat, Target};
use super::{ExportError, Result};
use crate::library_bin::LibraryBinWriter;

/// An import tree as bytes, and the symbol under which it is stored.
pub struct Blob<'a> {
    symbol: &'a str,
    writer: &'a LibraryBinWriter<'a>,
    size: usize,
}

impl<'a> Blob<'a> {
    /// A blob with the output of `writer`, stored under the name `symbol`.
    #[inline]
    pub fn new(symbol: &'a str, writer: &'a LibraryBinWriter<'a>) -> Self {
        Self { symbol, writer, size: writer.size() }
    }

    /// The C name of the symbol: `__tvm_ffi__library_bin`, preceded by the prefix of a system
    /// library.
    #[inline]
    pub fn symbol(&self) -> &str {
        self.symbol
    }

    /// Number of bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Writes the bytes without copying the payloads.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    #[inline]
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.writer.write_to(out)
    }

    /// Returns the bytes in memory; the payloads are copied once.
    ///
    /// # Errors
    /// Returns the errors of reading the payloads, and an error if memory runs out.
    #[inline]
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        self.writer.try_to_vec()
    }
}

/// Turns a blob into a file that a C compiler compiles or links: [`CPacker`], [`AssemblyPacker`],
/// and in kernpack-build `ObjectPacker` and `LlvmPacker`.
///
/// All produce the same result: a constant with the symbol's name, visible outside the library, in
/// a read-only section, aligned to [`BLOB_ALIGNMENT`], that contains the bytes of the blob.
pub trait Packer: Send + Sync {
    /// Writes the file into `folder` and returns its path. The file extension tells the compiler
    /// its type.
    ///
    /// # Errors
    /// Returns an OSError if the file cannot be written, and a RuntimeError if the packer does not
    /// support the target.
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> Result<PathBuf>;
}

/// Writes an array in C. It works with any compiler, but GCC needs memory of about 90 times the
/// blob's size.
#[derive(Clone, Copy, Debug, Default)]
pub struct CPacker;

/// Writes the blob into a file and an assembly file that includes it (`.incbin`): for blobs of any
/// size.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssemblyPacker;

/// Uses C for small blobs and assembly for large ones.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct ByItsSize;

/// The largest blob, in bytes, that is written in C by default.
const LARGEST_IN_C: usize = 64 << 10;

/// Number of bytes per line of C.
const LINE: usize = 20;

impl Packer for ByItsSize {
    #[inline]
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> Result<PathBuf> {
        if blob.size() <= LARGEST_IN_C {
            CPacker.pack(blob, target, folder)
        } else {
            AssemblyPacker.pack(blob, target, folder)
        }
    }
}

impl Packer for CPacker {
    #[inline]
    fn pack(&self, blob: &Blob<'_>, _target: &Target, folder: &Path) -> Result<PathBuf> {
        if blob.size() as u64 > LARGE_BLOB {
            return Err(ExportError::new(
                "RuntimeError",
                format!(
                    "{} has {} bytes, too many for an array in C; use the AssemblyPacker",
                    blob.symbol(),
                    blob.size()
                ),
            ));
        }
        let path = folder.join("devc.c");
        write_file(&path, |out| {
            let (symbol, size) = (blob.symbol(), blob.size());
            write!(
                out,
                "/* Written by kernpack: the import tree of a library. */\n\
                 #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\
                 extern const unsigned char {symbol}[{size}];\n\
                 __attribute__((aligned({BLOB_ALIGNMENT}), visibility(\"default\")))\n\
                 const unsigned char {symbol}[{size}] = {{\n"
            )?;
            let mut array = ArrayWriter { out, column: 0 };
            blob.write_to(&mut array)?;
            writeln!(out, "\n}};\n#ifdef __cplusplus\n}}\n#endif")
        })?;
        Ok(path)
    }
}

/// Writes bytes as the elements of a C array.
struct ArrayWriter<'a> {
    out: &'a mut dyn Write,
    column: usize,
}

impl Write for ArrayWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            write!(self.out, "{byte},")?;
            self.column += 1;
            if self.column == LINE {
                self.column = 0;
                self.out.write_all(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Packer for AssemblyPacker {
    #[inline]
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> Result<PathBuf> {
        let (content, path) = (folder.join("devc.bin"), folder.join("devc.s"));
        write_file(&content, |out| blob.write_to(out))?;
        let file = content.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let (symbol, section) = (target.symbol_name(blob.symbol()), target.blob_section(blob.size() as u64));
        let alignment = BLOB_ALIGNMENT.trailing_zeros();
        write_file(&path, |out| match target.format() {
            ObjectFormat::Elf => write!(
                out,
                "\t.section {name},\"{flags}\",%progbits\n\t.p2align {alignment}\n\t.globl {symbol}\n\t.type {symbol}, %object\n\
                 {symbol}:\n\t.incbin \"{file}\"\n\t.size {symbol}, .-{symbol}\n\t.section .note.GNU-stack,\"\",%progbits\n",
                name = section.name,
                flags = if section.is_large { "al" } else { "a" },
            ),
            ObjectFormat::MachO => write!(
                out,
                "\t.section {},{}\n\t.p2align {alignment}\n\t.globl {symbol}\n{symbol}:\n\t.incbin \"{file}\"\n",
                section.segment, section.name,
            ),
        })?;
        Ok(path)
    }
}

/// Creates a file with the content that `write` writes.
#[doc(hidden)]
#[inline]
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let written = || {
        let mut out = BufWriter::new(File::create(path)?);
        write(&mut out)?;
        out.flush()
    };
    written().map_err(|error| ExportError::new("OSError", format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_small_blob() {
        let mut writer = LibraryBinWriter::new();
        writer.add_library().unwrap();
        let blob = Blob::new("p__tvm_ffi__library_bin", &writer);
        let folder = std::env::temp_dir().join(format!("kernpack-packer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = Target::of_triple("x86_64-unknown-linux-gnu").unwrap();
        let c = std::fs::read_to_string(CPacker.pack(&blob, &target, &folder).unwrap()).unwrap();
        assert!(c.contains("const unsigned char p__tvm_ffi__library_bin[52] = {\n44,0,0,0,0,0,0,0,2,0,0,0,"), "{c}");
        let path = AssemblyPacker.pack(&blob, &target, &folder).unwrap();
        let file = folder.join("devc.bin");
        assert_eq!(std::fs::read(&file).unwrap(), writer.to_vec());
        let elf = format!(
            "\t.section .rodata,\"a\",%progbits\n\t.p2align 4\n\t.globl p__tvm_ffi__library_bin\n\
             \t.type p__tvm_ffi__library_bin, %object\np__tvm_ffi__library_bin:\n\t.incbin \"{0}\"\n\
             \t.size p__tvm_ffi__library_bin, .-p__tvm_ffi__library_bin\n\t.section .note.GNU-stack,\"\",%progbits\n",
            file.display()
        );
        assert_eq!(std::fs::read_to_string(path).unwrap(), elf);
        let target = Target::of_triple("arm64-apple-darwin").unwrap();
        let path = AssemblyPacker.pack(&blob, &target, &folder).unwrap();
        let macho = format!(
            "\t.section __TEXT,__const\n\t.p2align 4\n\t.globl _p__tvm_ffi__library_bin\n_p__tvm_ffi__library_bin:\n\
             \t.incbin \"{}\"\n",
            file.display()
        );
        assert_eq!(std::fs::read_to_string(path).unwrap(), macho);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
