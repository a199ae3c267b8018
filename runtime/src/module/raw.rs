//! The operations on any module, through its vtable: what the global functions `ffi.Module*` of the embedded
//! implementation do.

use super::implementation::{function_cache, implementation, vtable_of};
use super::{Module, function_cache};
use crate::Result;
use crate::abi::TVMFFIAny;
use crate::function::Function;
use crate::value::{Any, Bytes, IntoAny, Str};

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

/// The function of this name in the module, and when `imports`, in what it imports.
pub(crate) fn get_function(module: &Module, name: &str, imports: bool) -> Result<Option<Function>> {
    // SAFETY: the object is a live module.
    let cache = unsafe { function_cache(module.object()) };
    if let Some(found) = cache.and_then(|cache| cache.get(name, imports)) {
        return Ok(Some(found));
    }
    // A module's own function is noted where it is found.
    if let Some(own) = function(module, name)? {
        return Ok(Some(own));
    }
    if !imports {
        return Ok(None);
    }
    let tree = function_cache::tree();
    let mut looked_at = Vec::new();
    let found = visit(module, true, &mut |visited| {
        looked_at.push(visited.clone());
        if visited.same(module) { Ok(None) } else { function(visited, name) }
    })?;
    if let (Some(cache), Some(found)) = (cache, &found) {
        if function_cache::is_cacheable(&looked_at) {
            cache.note_import(name, found, tree);
        }
    }
    Ok(found)
}

/// Whether the module, and when `imports`, what it imports, has a function of this name.
pub(crate) fn implements_function(module: &Module, name: &str, imports: bool) -> Result<bool> {
    let found = visit(module, imports, &mut |module| {
        // SAFETY: the object is a live module; a module made elsewhere is asked through its vtable.
        let implements = unsafe {
            match implementation(module.object()) {
                Some(module) => module.implements_function(name)?,
                None => {
                    let (vtable, this) = vtable_of(module.object());
                    let name = Str::new(name).into_any();
                    (vtable.implements)(this, name.as_view().raw())
                }
            }
        };
        Ok(implements.then_some(()))
    })?;
    Ok(found.is_some())
}

/// The module's own function.
pub(crate) fn function(module: &Module, name: &str) -> Result<Option<Function>> {
    // SAFETY: the object is a live module; a module made elsewhere is asked through its vtable, which writes NULL or an
    // owned function.
    unsafe {
        if let (Some(implementation), Some(cache)) = (implementation(module.object()), function_cache(module.object()))
        {
            if let Some(found) = cache.get(name, false) {
                return Ok(Some(found));
            }
            let found = implementation.get_function(name)?;
            if let Some(found) = found.as_ref().filter(|_| implementation.has_fixed_functions()) {
                cache.note_own(name, found);
            }
            return Ok(found);
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
            return if documentation { module.function_doc(name) } else { module.function_metadata(name) };
        }
        let (vtable, this) = vtable_of(module.object());
        let ask = if documentation { vtable.doc } else { vtable.metadata };
        let name = Str::new(name).into_any();
        let mut out = TVMFFIAny::NONE;
        ask(&mut out, this, name.as_view().raw());
        Any::from_raw(out).to()
    }
}

/// The serialized module.
pub(crate) fn save_to_bytes(module: &Module) -> Result<Bytes> {
    // SAFETY: as in `function`; the vtable writes owned bytes.
    unsafe {
        if let Some(module) = implementation(module.object()) {
            return module.save_to_bytes();
        }
        let (vtable, this) = vtable_of(module.object());
        let mut out = TVMFFIAny::NONE;
        (vtable.save_to_bytes)(&mut out, this);
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
