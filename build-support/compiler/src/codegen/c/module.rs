//! Modules of C source: what a build for the target `c` gives, to be compiled later or somewhere else.

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

    /// It has to be compiled first.
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

    /// `c`, also when nothing is asked for.
    fn inspect_source(&self, format: &str) -> Result<String> {
        Ok(if matches!(format, "" | "c") { self.source.clone() } else { String::new() })
    }
}

/// The C source of functions as a module that can be written and exported: see [`build`](super::build).
///
/// # Errors
/// Those of [`build`](super::build).
pub fn build_module(module: &IrModule, target: &Target) -> crate::error::Result<Module> {
    let source = super::build(module, target)?;
    let functions = module.functions.iter().map(|function| function.name.as_str().to_owned()).collect();
    Ok(Module::new(CModule { source, functions }))
}
