//! Device images: from fat binaries to the object that defines `__tvm_ffi__library_bin`.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kernpack::module::device_image::{DeviceFunction, DeviceImage};
use kernpack::module::library_bin::{LIBRARY_BIN_SYMBOL, LibraryBinWriter};
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf,
};

use crate::cuda::CudaImage;
use crate::session::Session;
use crate::target::Target;
use crate::{Error, Result};

/// The largest blob that stays in the ordinary read-only section of x86-64.
const LARGE: u64 = 1 << 30;

/// Section flag of x86-64: may be out of the reach of 32-bit offsets.
const SHF_X86_64_LARGE: elf::SectionFlags = elf::SectionFlags(0x1000_0000);

/// Writes the import tree (the library, which imports one `cuda` module per input) and returns the object.
pub(crate) fn pack(session: &Session, images: &[CudaImage]) -> Result<PathBuf> {
    let payloads = Error::collect(images.iter().map(payload))?;
    let object = session.work_dir.join("library_bin.o");
    let written = || -> std::result::Result<(), Box<dyn std::error::Error>> {
        write_object(&session.target, blob(&payloads)?, &object)
    };
    written().map_err(|e| Error::new(format!("{LIBRARY_BIN_SYMBOL}: the device images can not be packed: {e}")))?;
    Ok(object)
}

fn payload(image: &CudaImage) -> Result<Vec<u8>> {
    let code = fs::read(&image.code)
        .map_err(|e| Error::new(format!("{}: its image {}: {e}", image.source, image.code.display())))?;
    let functions = image
        .kernels
        .iter()
        .map(|kernel| DeviceFunction::new(&kernel.name, kernel.arg_types.clone(), kernel.dynamic_shared_memory));
    Ok(DeviceImage::new(image.format, functions.collect(), &code).to_vec())
}

fn blob(payloads: &[Vec<u8>]) -> std::result::Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut writer = LibraryBinWriter::new();
    let library = writer.add_library()?;
    for payload in payloads {
        let module = writer.add_module("cuda", payload)?;
        writer.import(library, module)?;
    }
    Ok(writer.to_vec())
}

/// An object that defines the blob as read-only data. The bytes are written as they are, not copied again.
fn write_object(target: &Target, blob: Vec<u8>, path: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let architecture = match target.arch.as_str() {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        arch => return Err(format!("images can be put into libraries for x86_64 and aarch64, not for {arch}").into()),
    };
    let format = match target {
        target if target.is_elf() => BinaryFormat::Elf,
        target if target.is_apple() => BinaryFormat::MachO,
        target => return Err(format!("images can not be put into libraries for {}", target.os).into()),
    };
    let size = blob.len() as u64;
    let mut object = Object::new(format, architecture, Endianness::Little);
    let section = if format == BinaryFormat::Elf && architecture == Architecture::X86_64 && size > LARGE {
        let section = object.add_section(Vec::new(), b".lrodata".to_vec(), SectionKind::ReadOnlyData);
        *object.section_flags_mut(section) =
            SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SHF_ALLOC | SHF_X86_64_LARGE };
        section
    } else {
        object.section_id(object::write::StandardSection::ReadOnlyData)
    };
    object.set_section_data(section, blob, 16);
    object.add_symbol(Symbol {
        name: LIBRARY_BIN_SYMBOL.as_bytes().to_vec(),
        value: 0,
        size,
        kind: SymbolKind::Data,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    });
    if format == BinaryFormat::Elf {
        // Without this note GNU ld makes the whole library's stack executable.
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    }
    let mut out = BufWriter::new(File::create(path)?);
    object.write_stream(&mut out)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    use super::*;
    use crate::target::Cpu;

    #[test]
    fn the_object_defines_the_blob() {
        for (arch, os) in [("x86_64", "linux"), ("aarch64", "linux"), ("aarch64", "macos")] {
            let target = Target {
                triple: String::new(),
                host: String::new(),
                arch: arch.to_owned(),
                os: os.to_owned(),
                cpu: Cpu::Baseline,
                cpu_is_override: false,
                features: Vec::new(),
            };
            let path = std::env::temp_dir().join(format!("kernpack-pack-{}-{arch}-{os}.o", std::process::id()));
            write_object(&target, b"blob of bytes".to_vec(), &path).unwrap();
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            let file = object::File::parse(bytes.as_slice()).unwrap();
            let name = if os == "macos" { format!("_{LIBRARY_BIN_SYMBOL}") } else { LIBRARY_BIN_SYMBOL.to_owned() };
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(&name)).unwrap();
            assert_eq!(symbol.scope(), SymbolScope::Dynamic);
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            assert_eq!(section.kind(), SectionKind::ReadOnlyData);
            assert!(section.data().unwrap().starts_with(b"blob of bytes"));
        }
    }
}
