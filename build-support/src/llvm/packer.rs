use std::path::{Path, PathBuf};

use inkwell::module::Linkage;
use inkwell::targets::FileType;
use kernpack_formats::export::{BLOB_ALIGNMENT, Blob, ExportError, ObjectFormat, Packer, Target};

use crate::cargo::target::Target as Compilation;
use crate::llvm::{in_context, machine};
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
    fn pack(&self, blob: &Blob<'_>, target: &Target, folder: &Path) -> Result<PathBuf, ExportError> {
        let path = folder.join("devc.o");
        write(blob, target, &path).map_err(|error| ExportError::new("RuntimeError", error.to_string()))?;
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
            .map_err(|e| Error::new(format!("{symbol}: LLVM cannot compile it: {e}")))?;
        diagnostics.check(symbol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::object_packer::tests::check_objects;

    #[test]
    fn the_object_defines_the_blob() {
        check_objects(&LlvmPacker, "llvm-packer");
    }
}
