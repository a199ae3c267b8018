//! The operations on any module, through its vtable: the bodies of the global functions
//! `ffi.Module*` of the embedded implementation.

use core::ffi::c_void;
use core::ptr::null;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::cpp::call as cpp_call;
use super::cpp::vtable::vtable_of;
use super::object::{function_cache, implementation};
use super::{Module, function_cache};
use crate::Result;
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::function::Function;
use crate::value::{Any, Bytes, IntoAny, Str};

/// Visits the module and, with `imports`, everything that it imports, depth first and each once;
/// stops at the first result.
#[doc(hidden)]
#[inline]
pub fn visit<T>(
    module: &Module,
    imports: bool,
    look: &mut dyn FnMut(&Module) -> Result<Option<T>>,
) -> Result<Option<T>> {
    if let Some(found) = look(module)? {
        return Ok(Some(found));
    }
    if !imports {
        return Ok(None);
    }
    let mut pending = module.imports();
    pending.reverse();
    let mut seen = Seen::default();
    seen.insert(module);
    while let Some(module) = pending.pop() {
        if !seen.insert(&module) {
            continue;
        }
        if let Some(found) = look(&module)? {
            return Ok(Some(found));
        }
        pending.extend(module.imports().into_iter().rev());
    }
    Ok(None)
}

/// The modules that a traversal has visited. It keeps them alive, so that their addresses stay
/// unique.
#[derive(Default)]
pub(in crate::module) struct Seen {
    addresses: FxHashSet<*mut TVMFFIObject>,
    modules: Vec<Module>,
}

impl Seen {
    /// Reserves space for this many modules.
    #[inline]
    pub(in crate::module) fn with_capacity(modules: usize) -> Self {
        let addresses = FxHashSet::with_capacity_and_hasher(modules, FxBuildHasher);
        Self { addresses, modules: Vec::with_capacity(modules) }
    }

    /// Inserts the module; returns true if it was not present.
    #[inline]
    pub(in crate::module) fn insert(&mut self, module: &Module) -> bool {
        let is_new = self.addresses.insert(module.as_ptr());
        if is_new {
            self.modules.push(module.clone());
        }
        is_new
    }
}

/// Returns the function of this name in the module and, with `imports`, in everything that it
/// imports.
#[doc(hidden)]
#[inline]
pub fn get_function(module: &Module, name: &str, imports: bool) -> Result<Option<Function>> {
    // SAFETY: the object is a live module.
    let cache = unsafe { function_cache(module.as_ptr()) };
    if let Some(found) = cache.and_then(|cache| cache.get(name, imports)) {
        return Ok(Some(found));
    }
    // A module caches its own functions itself.
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
    if let (Some(cache), Some(found)) = (cache, &found)
        && function_cache::is_cacheable(&looked_at)
    {
        cache.note_import(name, found, tree);
    }
    Ok(found)
}

/// Returns whether the module has a function of this name. With `imports`, the imported modules
/// count too.
#[doc(hidden)]
#[inline]
pub fn implements_function(module: &Module, name: &str, imports: bool) -> Result<bool> {
    let found = visit(module, imports, &mut |module| {
        // SAFETY: the object is a live module; a foreign module is called through its vtable, and
        // returns a C++ bool.
        let implements = unsafe {
            match implementation(module.as_ptr()) {
                Some(module) => module.implements_function(name)?,
                None => {
                    let (vtable, this) = vtable_of(module.as_ptr());
                    let name = Str::new(name).into_any();
                    cpp_call::call(vtable.implements as _, [this, argument(&name), null()])? as u8 != 0
                }
            }
        };
        Ok(implements.then_some(()))
    })?;
    Ok(found.is_some())
}

/// Returns the module's own function.
#[inline]
pub(crate) fn function(module: &Module, name: &str) -> Result<Option<Function>> {
    // SAFETY: the object is a live module; a foreign module is called through its vtable, which
    // writes NULL or an owned function.
    unsafe {
        if let (Some(implementation), Some(cache)) = (implementation(module.as_ptr()), function_cache(module.as_ptr()))
        {
            if let Some(found) = cache.get(name, false) {
                return Ok(Some(found));
            }
            let found = implementation.find_function(name)?;
            if let Some(found) = found.as_ref().filter(|_| implementation.has_fixed_functions()) {
                cache.note_own(name, found);
            }
            return Ok(found);
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let name = Str::new(name).into_any();
        let mut out: *mut TVMFFIObject = core::ptr::null_mut();
        cpp_call::call_into((&raw mut out).cast(), vtable.function, [this, argument(&name)])?;
        Ok((!out.is_null()).then(|| Function::from_raw(out)))
    }
}

/// Returns the metadata (or documentation) of the module's own function.
#[doc(hidden)]
#[inline]
pub fn text(module: &Module, name: &str, documentation: bool) -> Result<Option<Str>> {
    // SAFETY: as in `function`; the vtable writes None or an owned string.
    unsafe {
        if let Some(module) = implementation(module.as_ptr()) {
            return if documentation { module.function_doc(name) } else { module.function_metadata(name) };
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let ask = if documentation { vtable.doc } else { vtable.metadata };
        let name = Str::new(name).into_any();
        let mut out = TVMFFIAny::NONE;
        let called = cpp_call::call_into((&raw mut out).cast(), ask, [this, argument(&name)]);
        let out = Any::from_raw(out);
        called.and_then(|_| out.to())
    }
}

/// The address of a string value, as a `const String&`.
#[inline]
fn argument(text: &Any) -> *const c_void {
    core::ptr::from_ref(text).cast()
}

/// Serializes the module.
#[inline]
pub(crate) fn save_to_bytes(module: &Module) -> Result<Bytes> {
    // SAFETY: as in `function`; the vtable writes owned bytes.
    unsafe {
        if let Some(module) = implementation(module.as_ptr()) {
            return module.save_to_bytes();
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let mut out = TVMFFIAny::NONE;
        let called = cpp_call::call_into((&raw mut out).cast(), vtable.save_to_bytes, [this, null()]);
        let out = Any::from_raw(out);
        called.and_then(|_| out.to())
    }
}

/// Returns source code in a format.
#[doc(hidden)]
#[inline]
pub fn inspect_source(module: &Module, format: &str) -> Result<Str> {
    // SAFETY: as in `function`; the vtable writes an owned string.
    unsafe {
        if let Some(module) = implementation(module.as_ptr()) {
            return module.inspect_source(format).map(|source| Str::new(&source));
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let format = Str::new(format).into_any();
        let mut out = TVMFFIAny::NONE;
        let called = cpp_call::call_into((&raw mut out).cast(), vtable.inspect_source, [this, argument(&format)]);
        let out = Any::from_raw(out);
        called.and_then(|_| out.to())
    }
}

/// Formats that the module can be written in.
#[doc(hidden)]
#[inline]
pub fn write_formats(module: &Module) -> Result<Vec<String>> {
    // SAFETY: as in `function`; the vtable writes an owned array.
    unsafe {
        if let Some(module) = implementation(module.as_ptr()) {
            return Ok(module.write_formats());
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let mut out: *mut TVMFFIObject = core::ptr::null_mut();
        let called = cpp_call::call_into((&raw mut out).cast(), vtable.write_formats, [this, null()]);
        let out = if out.is_null() { Any::NONE } else { Any::from_object(out) };
        called.and_then(|_| out.to())
    }
}

/// Writes the module in a format.
#[doc(hidden)]
#[inline]
pub fn write_to_file(module: &Module, path: &str, format: &str) -> Result<()> {
    // SAFETY: as in `function`.
    unsafe {
        if let Some(module) = implementation(module.as_ptr()) {
            return module.write_to_file(path, format);
        }
        let (vtable, this) = vtable_of(module.as_ptr());
        let (path, format) = (Str::new(path).into_any(), Str::new(format).into_any());
        cpp_call::call(vtable.write_to_file as _, [this, argument(&path), argument(&format)])?;
    }
    Ok(())
}

/// Adds an import; returns an error for cycles.
#[doc(hidden)]
#[inline]
pub fn import(module: &Module, other: &Module) -> Result<()> {
    module.import_locally(other)
}

/// Removes all imports.
#[doc(hidden)]
#[inline]
pub fn clear_imports(module: &Module) {
    module.clear_imports_locally();
}
