use std::path::{Path, PathBuf};

use inkwell::module::Linkage;
use inkwell::targets::FileType;
use kernpack::module::export::{BLOB_ALIGNMENT, Blob, ObjectFormat, Packer, Target};

use crate::llvm::{in_context, machine};
use crate::target::Target as Compilation;
use crate::{Error, Result};

/// Writes an object file with LLVM, as Apache TVM does by default: a constant array of bytes.
///
/// ```no_run
/// use kernpack::Module;
/// use kernpack::module::ExportOptions;
///
/// # fn export(module: &Module) -> kernpack::Result<()> {
/// module.export_library("lib.so", &ExportOptions::new().packer(kernpack_build::LlvmPacker))
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LlvmPacker;

impl Packer for LlvmPacker {
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> kernpack::Result<PathBuf> {
        let path = folder.join("devc.o");
        write(blob, target, &path).map_err(|error| kernpack::Error::runtime_error(error.to_string()))?;
        Ok(path)
    }
}

fn write(blob: &Blob<'_>, target: &Target, path: &Path) -> Result<()> {
    let symbol = blob.symbol();
    let bytes = blob.to_vec().map_err(|e| Error::new(format!("{symbol}: {e}")))?;
    let machine = machine(&Compilation::of_triple(target.triple()))?;
    let section = target.blob_section(bytes.len() as u64);
    in_context(|context, diagnostics| {
        let module = context.create_module("library_bin");
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        let array = context.const_string(&bytes, false);
        let global = module.add_global(array.get_type(), None, symbol);
        global.set_initializer(&array);
        global.set_constant(true);
        global.set_linkage(Linkage::External);
        global.set_alignment(BLOB_ALIGNMENT as u32);
        let name = match target.format() {
            ObjectFormat::Elf => section.name.to_owned(),
            ObjectFormat::MachO => format!("{},{}", section.segment, section.name),
        };
        global.set_section(Some(&name));
        machine
            .write_to_file(&module, FileType::Object, path)
            .map_err(|e| Error::new(format!("{symbol}: LLVM can not compile it: {e}")))?;
        diagnostics.check(symbol)
    })
}

#[cfg(test)]
mod tests {
    use kernpack::module::library_bin::LibraryBinWriter;
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};

    use super::*;

    #[test]
    fn the_object_defines_the_blob() {
        let mut writer = LibraryBinWriter::new();
        writer.add_library().unwrap();
        let folder = std::env::temp_dir().join(format!("kernpack-llvm-packer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"] {
            let target = Target::of_triple(triple).unwrap();
            let blob = Blob::new("symbol", &writer);
            let bytes = std::fs::read(LlvmPacker.pack(&blob, &target, &folder).unwrap()).unwrap();
            let file = object::File::parse(bytes.as_slice()).unwrap();
            let name = target.symbol_name("symbol");
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(&name)).unwrap();
            assert_eq!(symbol.scope(), object::SymbolScope::Dynamic);
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            assert_eq!(section.kind(), SectionKind::ReadOnlyData, "{triple}");
            assert!(section.align() >= BLOB_ALIGNMENT);
            assert_eq!(section.data().unwrap(), writer.to_vec());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
