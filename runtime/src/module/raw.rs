//! The operations on any module, through its vtable: what the global functions `ffi.Module*` of the embedded
//! implementation do.

use super::Module;
use super::implementation::{implementation, vtable_of};
use crate::Result;
use crate::abi::TVMFFIAny;
use crate::function::Function;
use crate::value::{Any, IntoAny, Str};

/// Visits the module and, when `imports`, everything that it imports, depth first; stops at the first result.
pub(crate) fn visit<T>(
    module: &Module,
    imports: bool,
    look: &mut dyn FnMut(&Module) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut pending = vec![module.clone()];
    let mut seen: Vec<Module> = Vec::new();
    while let Some(module) = pending.pop() {
        if seen.iter().any(|other| other.same(&module)) {
            continue;
        }
        if let Some(found) = look(&module)? {
            return Ok(Some(found));
        }
        if imports {
            pending.extend(module.imports().into_iter().rev());
        }
        seen.push(module);
    }
    Ok(None)
}

/// The module's own function.
pub(crate) fn function(module: &Module, name: &str) -> Result<Option<Function>> {
    // SAFETY: the object is a live module; a module made elsewhere is asked through its vtable, which writes NULL or an
    // owned function.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return module.function(name);
        }
        let (vtable, this) = vtable_of(module.object());
        let name = Str::new(name).into_any();
        let mut out = core::ptr::null_mut();
        (vtable.function)(&mut out, this, name.as_view().raw());
        Ok((!out.is_null()).then(|| Function::from_object(out)))
    }
}

/// Metadata (or documentation) of the module's own function.
pub(crate) fn text(module: &Module, name: &str, documentation: bool) -> Result<Option<Str>> {
    // SAFETY: as in `function`; the vtable writes None or an owned string.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return if documentation { module.doc(name) } else { module.metadata(name) };
        }
        let (vtable, this) = vtable_of(module.object());
        let ask = if documentation { vtable.doc } else { vtable.metadata };
        let name = Str::new(name).into_any();
        let mut out = TVMFFIAny::NONE;
        ask(&mut out, this, name.as_view().raw());
        Any::from_raw(out).to()
    }
}

/// Source code in a format.
pub(crate) fn inspect_source(module: &Module, format: &str) -> Result<Str> {
    // SAFETY: as in `function`; the vtable writes an owned string.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return module.inspect_source(format).map(|source| Str::new(&source));
        }
        let (vtable, this) = vtable_of(module.object());
        let format = Str::new(format).into_any();
        let mut out = TVMFFIAny::NONE;
        (vtable.inspect_source)(&mut out, this, format.as_view().raw());
        Any::from_raw(out).to()
    }
}

/// Formats that the module can be written in.
pub(crate) fn write_formats(module: &Module) -> Result<Vec<String>> {
    // SAFETY: as in `function`; the vtable writes an owned array.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return Ok(module.write_formats());
        }
        let (vtable, this) = vtable_of(module.object());
        let mut out = core::ptr::null_mut();
        (vtable.write_formats)(&mut out, this);
        Any::from_object(out).to()
    }
}

/// Writes the module in a format.
pub(crate) fn write_to_file(module: &Module, path: &str, format: &str) -> Result<()> {
    // SAFETY: as in `function`.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return module.write_to_file(path, format);
        }
        let (vtable, this) = vtable_of(module.object());
        let (path, format) = (Str::new(path).into_any(), Str::new(format).into_any());
        (vtable.write_to_file)(this, path.as_view().raw(), format.as_view().raw());
    }
    Ok(())
}

/// Adds an import, refusing cycles.
pub(crate) fn import(module: &Module, other: &Module) -> Result<()> {
    module.import_locally(other)
}

/// Empties the imports.
pub(crate) fn clear_imports(module: &Module) {
    module.clear_imports_locally();
}
