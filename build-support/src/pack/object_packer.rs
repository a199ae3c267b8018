use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kernpack_formats::export::{BLOB_ALIGNMENT, Blob, ExportError, ObjectFormat, Packer, Target};
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf,
};

/// Section flag of x86-64: the section may be out of the reach of 32-bit offsets.
const SHF_X86_64_LARGE: elf::SectionFlags = elf::SectionFlags(0x1000_0000);

/// Writes an object file that defines the blob, without a compiler. Only one copy of the blob is in
/// memory.
///
/// ```no_run
/// use kernpack::Module;
/// use kernpack::module::ExportOptions;
///
/// # fn export(module: &Module) -> kernpack::Result<()> {
/// module.export_library("lib.so", &ExportOptions::new().packer(kernpack_build::ObjectPacker))
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectPacker;

impl Packer for ObjectPacker {
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> Result<PathBuf, ExportError> {
        let path = folder.join("devc.o");
        write(blob, &[Definition::exported(blob.symbol())], target, &path)?;
        Ok(path)
    }
}

/// A symbol at the data of an object.
#[derive(Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    /// The visibility: only the rest of the library, or also the loader.
    pub(super) scope: SymbolScope,
    /// True if other objects may define the symbol, too. The first definition in link order is used
    /// then.
    pub(super) is_weak: bool,
}

impl<'a> Definition<'a> {
    /// A symbol that is visible outside the library.
    pub(super) fn exported(name: &'a str) -> Self {
        Self { name, scope: SymbolScope::Dynamic, is_weak: false }
    }

    /// A symbol that is only visible in the library.
    pub(super) fn internal(name: &'a str) -> Self {
        Self { name, scope: SymbolScope::Linkage, is_weak: false }
    }

    pub(super) fn weak(self) -> Self {
        Self { is_weak: true, ..self }
    }
}

/// Writes an object that defines these symbols at the blob.
pub(super) fn write(
    blob: &Blob<'_>,
    symbols: &[Definition<'_>],
    target: &Target,
    path: &Path,
) -> Result<(), ExportError> {
    let written = || -> Result<(), Box<dyn std::error::Error>> {
        let bytes = blob.to_vec()?;
        let object = object_of(symbols, &bytes, target, BLOB_ALIGNMENT)?;
        let mut out = BufWriter::new(File::create(path)?);
        object.write_stream(&mut out)?;
        Ok(out.flush()?)
    };
    written().map_err(|error| {
        ExportError::new("RuntimeError", format!("{} cannot be written into an object: {error}", blob.symbol()))
    })
}

/// An object that defines the symbols as read-only data; the bytes are not copied.
pub(super) fn object_of<'a>(
    symbols: &[Definition<'_>],
    bytes: &'a [u8],
    target: &Target,
    alignment: u64,
) -> Result<Object<'a>, Box<dyn std::error::Error>> {
    let architecture = match target.arch() {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        arch => return Err(format!("objects can be written for x86_64 and aarch64, not for {arch}").into()),
    };
    let format = match target.format() {
        ObjectFormat::Elf => BinaryFormat::Elf,
        ObjectFormat::MachO => BinaryFormat::MachO,
    };
    let size = bytes.len() as u64;
    let mut object = Object::new(format, architecture, Endianness::Little);
    let place = target.blob_section(size);
    let (segment, name) = (place.segment.as_bytes().to_vec(), place.name.as_bytes().to_vec());
    let section = object.add_section(segment, name, SectionKind::ReadOnlyData);
    if place.is_large {
        *object.section_flags_mut(section) =
            SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SHF_ALLOC | SHF_X86_64_LARGE };
    }
    object.set_section_data(section, bytes, alignment);
    for symbol in symbols {
        object.add_symbol(Symbol {
            name: symbol.name.as_bytes().to_vec(),
            value: 0,
            size,
            kind: SymbolKind::Data,
            scope: symbol.scope,
            weak: symbol.is_weak,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    if format == BinaryFormat::Elf {
        // Without this note GNU ld makes the whole library's stack executable.
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    }
    Ok(object)
}

#[cfg(test)]
pub(crate) mod tests {
    use kernpack_formats::library_bin::{LIBRARY_BIN_SYMBOL, LibraryBinWriter};
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    use super::*;

    fn tree() -> LibraryBinWriter<'static> {
        let mut writer = LibraryBinWriter::new();
        writer.add_library().unwrap();
        writer
    }

    /// Checks the properties that the objects of every packer share. `name` is the name of a
    /// folder.
    pub(crate) fn check_objects(packer: &dyn Packer, name: &str) {
        let writer = tree();
        let folder = std::env::temp_dir().join(format!("kernpack-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"] {
            let target = Target::of_triple(triple).unwrap();
            let blob = Blob::new(LIBRARY_BIN_SYMBOL, &writer);
            let bytes = std::fs::read(packer.pack(&blob, &target, &folder).unwrap()).unwrap();
            let file = object::File::parse(bytes.as_slice()).unwrap();
            let name = target.symbol_name(LIBRARY_BIN_SYMBOL);
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(&name)).unwrap();
            assert_eq!(symbol.scope(), SymbolScope::Dynamic);
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            assert_eq!(section.kind(), SectionKind::ReadOnlyData, "{triple}");
            assert!(section.align() >= BLOB_ALIGNMENT, "{triple}");
            assert_eq!(section.data().unwrap(), writer.to_vec());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_object_defines_the_blob() {
        check_objects(&ObjectPacker, "object-packer");
        let writer = tree();
        let riscv = Target::of_triple("riscv64gc-unknown-linux-gnu").unwrap();
        let error = ObjectPacker.pack(&Blob::new("s", &writer), &riscv, Path::new("/tmp")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "RuntimeError: s cannot be written into an object: objects can be written for x86_64 and aarch64, not for \
             riscv64gc"
        );
    }
}
