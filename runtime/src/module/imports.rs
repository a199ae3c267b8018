//! Import trees: who imports whom, and what is found there. Two locks for all modules order changes and searches.

use std::sync::{Mutex, PoisonError, RwLock};

use super::object::{is_nothing_found, nothing_found};
use super::{Module, function_cache, raw};
use crate::abi::{TVMFFIAny, TVMFFIModuleCell, TVMFFIObject, type_index};
use crate::container::Array;
use crate::function::Function;
use crate::value::{Any, AnyView, FromAny, IntoAny, Str};
use crate::{Result, embedded};

/// Orders changes of import trees and looks at them, for all modules.
static TREE: RwLock<()> = RwLock::new(());

/// Orders the search of imports, and the use of what modules remember of it, for all modules.
static FINDING: Mutex<()> = Mutex::new(());

impl Module {
    /// The imported modules, in order.
    pub fn imports(&self) -> Vec<Module> {
        let array = {
            let _unchanged = TREE.read().unwrap_or_else(PoisonError::into_inner);
            self.imports_array()
        };
        array.to_vec()
    }

    /// The caller holds [`TREE`].
    fn imports_array(&self) -> Array<Module> {
        // SAFETY: the object is a live module, whose cell owns an array; it is only changed under the lock.
        let raw = unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object());
            AnyView::from_raw(TVMFFIAny::pointer(type_index::ARRAY, (*cell).imports.cast()))
        };
        // An array that holds something else than modules would break the ABI's contract; it counts as empty.
        Array::from_any(&raw).unwrap_or_else(|_| Array::from_iter(std::iter::empty::<Module>()))
    }

    /// Adds a module to the imports.
    ///
    /// # Errors
    /// RuntimeError when that would make a cycle.
    pub fn import(&self, other: &Module) -> Result<()> {
        // Our own modules lock for themselves, below.
        let _alone = (!self.is_ours()).then(|| TREE.write().unwrap_or_else(PoisonError::into_inner));
        Function::global("ffi.ModuleImportModule")?.call((self, other)).map(drop)
    }

    /// Empties the imports.
    ///
    /// # Errors
    /// What the host reports.
    pub fn clear_imports(&self) -> Result<()> {
        let _alone = (!self.is_ours()).then(|| TREE.write().unwrap_or_else(PoisonError::into_inner));
        Function::global("ffi.ModuleClearImports")?.call((self,)).map(drop)
    }

    /// The import as the embedded implementation does it.
    pub(super) fn import_locally(&self, other: &Module) -> Result<()> {
        let mut pending = vec![other.clone()];
        let mut seen = raw::Seen::default();
        // Unlocked before anything above is released: the release of a module may run any code.
        let _alone = TREE.write().unwrap_or_else(PoisonError::into_inner);
        while let Some(module) = pending.pop() {
            if module.same(self) {
                return Err(crate::error!(
                    RuntimeError,
                    "Cyclic dependency detected during import: a module of kind '{}' would import itself",
                    self.kind()
                ));
            }
            if seen.insert(&module) {
                pending.extend(module.imports_array().to_vec());
            }
        }
        self.append(std::slice::from_ref(other));
        Ok(())
    }

    /// Appends modules, of which the caller knows that none of them leads back here.
    pub(super) fn append_imports(&self, others: &[Module]) {
        let _alone = TREE.write().unwrap_or_else(PoisonError::into_inner);
        self.append(others);
    }

    /// The caller holds [`TREE`] alone. The old array's modules are all in the new one, so none of them goes.
    fn append(&self, others: &[Module]) {
        let mut imports: Vec<Module> = self.imports_array().to_vec();
        imports.extend_from_slice(others);
        drop(self.replace_imports(imports));
    }

    pub(super) fn clear_imports_locally(&self) {
        let old = {
            let _alone = TREE.write().unwrap_or_else(PoisonError::into_inner);
            self.replace_imports(Vec::new())
        };
        drop(old);
    }

    /// Empties the imports, and forgets what was found in them.
    pub(super) fn forget_imports(&self) {
        self.clear_imports_locally();
        let one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.replace_found(nothing_found());
        drop(one_at_a_time);
        drop(found);
    }

    /// Puts a map in the place of what was found in the imports, and hands that out. The caller holds [`FINDING`] and gives up a
    /// reference to the map.
    fn replace_found(&self, map: *mut TVMFFIObject) -> Option<Any> {
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the lock; its reference goes to the
        // result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object());
            let found = core::mem::replace(&mut (*cell).import_lookup_cache, map);
            (!found.is_null()).then(|| Any::from_object(found))
        }
    }

    /// The caller holds [`TREE`] alone. The result is the old array.
    fn replace_imports(&self, imports: Vec<Module>) -> Any {
        function_cache::tree_changed();
        // SAFETY: the object is a live module; the new array replaces the old one, whose reference goes to the result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object());
            let array = imports.into_any().into_raw().payload.v_obj;
            Any::from_object(core::mem::replace(&mut (*cell).imports, array))
        }
    }

    /// The function of this name in what this module imports, depth first; found once, then remembered in the module.
    pub(super) fn find_import(&self, name: &str) -> Result<Option<Function>> {
        let _one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Str::new(name).into_any();
        // SAFETY: the object is a live module, whose cell owns a map that is only used here, under the lock.
        let mut cache = unsafe { (*embedded::body_ptr::<TVMFFIModuleCell>(self.object())).import_lookup_cache };
        // SAFETY: as above; an entry is borrowed from the map and gets a reference of its own.
        let known = unsafe { embedded::map::get(cache, key.as_view().raw()) }.ok().flatten();
        if let Some(known) = known {
            // SAFETY: the map keeps the value alive.
            return unsafe { AnyView::from_raw(known) }.to_owned()?.to().map(Some);
        }
        for import in self.imports() {
            if let Some(function) = raw::visit(&import, true, &mut |module| raw::function(module, name))? {
                if is_nothing_found(cache) {
                    let Ok(own) = embedded::map::new_map(Vec::new()) else { return Ok(Some(function)) };
                    drop(self.replace_found(own));
                    cache = own;
                }
                let value = function.clone().into_any().into_raw();
                // SAFETY: as above, and the map is this module's own; it takes over key and value.
                let _ = unsafe { embedded::map::set(cache, key.into_raw(), value) };
                return Ok(Some(function));
            }
        }
        Ok(None)
    }
}
