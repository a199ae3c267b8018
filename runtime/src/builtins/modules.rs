//! Modules as functions; messages and results as in the stock library.

use std::sync::{Mutex, PoisonError};

use super::global;
use crate::Result;
use crate::function::Function;
use crate::module::{self, Module, raw};
use crate::value::Str;

/// Modules that stay loaded until someone removes them.
static KEPT: Mutex<Vec<Module>> = Mutex::new(Vec::new());

pub(super) fn register() -> Result<()> {
    global("ffi.ModuleLoadFromFile", |path: String| module::load_from_file(&path))?;
    global("ffi.Module.load_from_file.so", |path: String, _format: String| module::load_shared_library(&path))?;
    global("ffi.ModuleGetFunction", |module: Module, name: String, imports: bool| -> Result<Option<Function>> {
        raw::visit(&module, imports, &mut |module| raw::function(module, &name))
    })?;
    global("ffi.ModuleImplementsFunction", |module: Module, name: String, imports: bool| -> Result<bool> {
        Ok(raw::visit(&module, imports, &mut |module| raw::function(module, &name))?.is_some())
    })?;
    global("ffi.ModuleGetFunctionMetadata", |module: Module, name: String, imports: bool| -> Result<Option<Str>> {
        raw::visit(&module, imports, &mut |module| raw::text(module, &name, false))
    })?;
    global("ffi.ModuleGetFunctionDoc", |module: Module, name: String, imports: bool| -> Result<Option<Str>> {
        raw::visit(&module, imports, &mut |module| raw::text(module, &name, true))
    })?;
    global("ffi.ModuleGetKind", |module: Module| module.kind())?;
    global("ffi.ModuleGetPropertyMask", |module: Module| module.property_mask())?;
    global("ffi.ModuleGetWriteFormats", |module: Module| raw::write_formats(&module))?;
    global("ffi.ModuleWriteToFile", |module: Module, path: String, format: String| {
        raw::write_to_file(&module, &path, &format)
    })?;
    global("ffi.ModuleInspectSource", |module: Module, format: String| raw::inspect_source(&module, &format))?;
    global("ffi.ModuleImportModule", |module: Module, other: Module| raw::import(&module, &other))?;
    global("ffi.ModuleClearImports", |module: Module| raw::clear_imports(&module))?;
    global("ffi.ModuleGlobalsAdd", |module: Module| {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(module);
    })?;
    global("ffi.ModuleGlobalsRemove", |module: Module| {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).retain(|kept| !kept.same(&module));
    })
}
