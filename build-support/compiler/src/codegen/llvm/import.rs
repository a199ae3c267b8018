//! Code that a program imports: `pragma_import_llvm`.

use inkwell::attributes::AttributeLoc;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Linkage;
use inkwell::values::FunctionValue;

use super::CodeGenLLVM;
use crate::error::{CompileError, ErrorKind, Result};

impl CodeGenLLVM<'_, '_> {
    /// Links LLVM text, or a file with text (`.ll`) or bitcode (`.bc`), into the module. Its
    /// functions are inlined where the program calls them, and are internal: several modules of a
    /// library may import the same code.
    pub(super) fn import(&mut self, source: &str) -> Result<()> {
        if !self.imported.insert(source.to_owned()) {
            return Ok(());
        }
        let error = |what: String| CompileError::new(ErrorKind::Target, format!("pragma `import_llvm`: {what}"));
        let is_file = [".ll", ".bc"].into_iter().any(|end| source.ends_with(end)) && !source.contains('\n');
        let buffer = if is_file {
            MemoryBuffer::create_from_file(source.as_ref())
                .map_err(|problem| error(format!("`{source}` cannot be read: {}", problem.to_string_lossy())))?
        } else {
            MemoryBuffer::create_from_memory_range_copy(source.as_bytes(), "import_llvm")
        };
        let other = self
            .context
            .create_module_from_ir(buffer)
            .map_err(|problem| error(problem.to_string_lossy().trim_end().to_owned()))?;
        other.set_triple(&self.module.get_triple());
        other.set_data_layout(&self.module.get_data_layout());
        let defined: Vec<String> = other
            .get_functions()
            .filter(|function| function.count_basic_blocks() > 0)
            .map(|function| function.get_name().to_string_lossy().into_owned())
            .collect();
        let taken = |name: &&String| {
            self.module.get_function(name).is_some_and(|function: FunctionValue<'_>| function.count_basic_blocks() > 0)
        };
        if let Some(name) = defined.iter().find(taken) {
            return Err(error(format!("the module has a function `{name}` already")));
        }
        self.module.link_in_module(other).map_err(|problem| error(problem.to_string_lossy().trim_end().to_owned()))?;
        for name in defined {
            if let Some(function) = self.module.get_function(&name) {
                function.set_linkage(Linkage::Internal);
                self.set_attribute(function, AttributeLoc::Function, "alwaysinline", 0);
            }
        }
        Ok(())
    }
}
