//! Modules of C source: the result of a build for the target `c`, to be compiled later or
//! elsewhere.

use kernpack::module::{ModuleImpl, ModuleProperties};
use kernpack::{Function, Module, Result};

use crate::codegen::Target;
use crate::ir::IrModule;

/// C source with the names of its functions.
struct CModule {
    source: String,
    functions: Vec<String>,
}

impl ModuleImpl for CModule {
    fn kind(&self) -> &str {
        "c"
    }

    fn properties(&self) -> ModuleProperties {
        ModuleProperties::COMPILATION_EXPORTABLE
    }

    /// Returns nothing, because the source has to be compiled first.
    fn find_function(&self, _: &str) -> Result<Option<Function>> {
        Ok(None)
    }

    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.functions.iter().any(|function| function == name))
    }

    fn function_names(&self) -> Vec<String> {
        self.functions.clone()
    }

    fn write_formats(&self) -> Vec<String> {
        vec!["c".to_owned()]
    }

    fn write_to_file(&self, path: &str, format: &str) -> Result<()> {
        if format != "c" {
            return Err(kernpack::Error::runtime_error(format!(
                "a module of kind 'c' cannot be written as '{format}', only as c"
            )));
        }
        std::fs::write(path, &self.source)
            .map_err(|error| kernpack::error!(OSError, "{path} cannot be written: {error}"))
    }

    /// Returns the source for the formats `c` and the empty one.
    fn inspect_source(&self, format: &str) -> Result<String> {
        Ok(if matches!(format, "" | "c") { self.source.clone() } else { String::new() })
    }
}

/// Returns the C source of functions as a module that can be written and exported: see
/// [`build`](super::build).
///
/// # Errors
/// Returns the errors of [`build`](super::build).
pub fn build_module(module: &IrModule, target: &Target) -> crate::error::Result<Module> {
    let source = super::build(module, target)?;
    let functions = module.functions.iter().map(|function| function.name.as_str().to_owned()).collect();
    Ok(Module::new(CModule { source, functions }))
}
