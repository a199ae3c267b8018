//! Import trees: the imports of each module, and the functions that are found there. Two locks
//! order changes and searches: one for all modules of the process, one for this artifact.

use std::sync::{Mutex, PoisonError};

use super::cpp::error_relay;
use super::import_order::ImportLock;
use super::object::{is_nothing_found, nothing_found};
use super::{Module, function_cache, operations};
use crate::abi::{TVMFFIAny, TVMFFIModuleCell, TVMFFIObject, type_index};
use crate::container::Array;
use crate::function::Function;
use crate::value::{Any, AnyView, FromAny, IntoAny, Str};
use crate::{Result, embedded};

/// Orders access to the caches of searches in imports, for all modules. No other code runs while it
/// is locked.
static FINDING: Mutex<()> = Mutex::new(());

impl Module {
    /// The imported modules, in order.
    #[inline]
    pub fn imports(&self) -> Vec<Module> {
        let array = {
            let _unchanged = ImportLock::take();
            self.imports_array()
        };
        array.to_vec()
    }

    /// The caller holds the [`ImportLock`].
    #[inline]
    fn imports_array(&self) -> Array<Module> {
        // SAFETY: the object is a live module, whose cell owns an array that is only changed under
        // the lock.
        let raw = unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.as_ptr());
            AnyView::from_raw(TVMFFIAny::pointer(type_index::ARRAY, (*cell).imports.cast()))
        };
        // An array with elements other than modules would break the ABI's contract; it is treated
        // as empty.
        Array::from_any(&raw).unwrap_or_else(|_| Array::from_iter(std::iter::empty::<Module>()))
    }

    /// Adds a module to the imports.
    ///
    /// # Errors
    /// Returns a RuntimeError if that would create a cycle.
    #[inline]
    pub fn import(&self, other: &Module) -> Result<()> {
        let _alone = self.lock_if_not_ours();
        // The provider calls a virtual function, whose error may not pass through it as an
        // exception.
        match Function::find_global("ffi.ModuleImportModule")? {
            Some(import) => error_relay::listening(|| import.call((self, other)).map(drop)),
            None => self.import_locally(other),
        }
    }

    /// Modules of this project take the lock themselves when they change; C++ modules do not.
    #[inline]
    fn lock_if_not_ours(&self) -> Option<ImportLock> {
        (!self.is_ours()).then(ImportLock::take)
    }

    /// Removes all imports.
    ///
    /// # Errors
    /// Returns the provider's error.
    #[inline]
    pub fn clear_imports(&self) -> Result<()> {
        // They are released last: a module's destructor may wait for a thread that waits for the
        // lock.
        let _last = self.imports();
        let _alone = self.lock_if_not_ours();
        match Function::find_global("ffi.ModuleClearImports")? {
            Some(clear) => clear.call((self,)).map(drop),
            None => {
                self.clear_imports_locally();
                Ok(())
            }
        }
    }

    /// Adds an import, as the embedded implementation does.
    #[inline]
    pub(super) fn import_locally(&self, other: &Module) -> Result<()> {
        let mut pending = vec![other.clone()];
        let mut seen = operations::Seen::default();
        // Unlocked before any of the values above is released: the destructor of a module may run
        // any code.
        let _alone = ImportLock::take();
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

    /// Appends modules that, as the caller knows, do not import this one, not even indirectly.
    #[inline]
    pub(super) fn append_imports(&self, others: &[Module]) {
        let _alone = ImportLock::take();
        self.append(others);
    }

    /// The caller holds the [`ImportLock`]. The old array's modules are all in the new one, so none
    /// of them is destroyed.
    #[inline]
    fn append(&self, others: &[Module]) {
        let mut imports: Vec<Module> = self.imports_array().to_vec();
        imports.extend_from_slice(others);
        drop(self.replace_imports(imports));
    }

    #[inline]
    pub(super) fn clear_imports_locally(&self) {
        let old = {
            let _alone = ImportLock::take();
            self.replace_imports(Vec::new())
        };
        drop(old);
    }

    /// Removes all imports and clears the cache of functions found in them.
    #[inline]
    pub(super) fn forget_imports(&self) {
        self.clear_imports_locally();
        let one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.replace_found(nothing_found());
        drop(one_at_a_time);
        drop(found);
    }

    /// Replaces the map of functions found in the imports, and returns the old one. The caller
    /// holds [`FINDING`] and transfers a reference to the new map.
    #[inline]
    fn replace_found(&self, map: *mut TVMFFIObject) -> Option<Any> {
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the
        // lock; the old map's reference is transferred to the result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.as_ptr());
            let found = core::mem::replace(&mut (*cell).import_lookup_cache, map);
            (!found.is_null()).then(|| Any::from_object(found))
        }
    }

    /// The caller holds the [`ImportLock`]. Returns the old array.
    #[inline]
    fn replace_imports(&self, imports: Vec<Module>) -> Any {
        function_cache::tree_changed();
        // SAFETY: the object is a live module; the new array replaces the old one, whose reference
        // is transferred to the result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.as_ptr());
            let array = imports.into_any().into_raw().payload.v_obj;
            Any::from_object(core::mem::replace(&mut (*cell).imports, array))
        }
    }

    /// Returns the function of this name from this module's imports, depth first. It is searched
    /// once, then cached in the module.
    #[inline]
    pub(super) fn find_import(&self, name: &str) -> Result<Option<Function>> {
        let key = Str::new(name).into_any();
        {
            let _one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = self.found_before(&key) {
                return known.to().map(Some);
            }
        }
        // Unlocked: a module may run any code to find a function, including this function.
        for import in self.imports() {
            if let Some(function) = operations::visit(&import, true, &mut |module| operations::function(module, name))?
            {
                return self.note_found(key, function).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the function that was found under this name before. The caller holds [`FINDING`].
    #[inline]
    fn found_before(&self, key: &Any) -> Option<Any> {
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the
        // lock; an entry is borrowed from the map and gets its own reference.
        unsafe {
            let found = (*embedded::body_ptr::<TVMFFIModuleCell>(self.as_ptr())).import_lookup_cache;
            let known = embedded::map::get(found, key.as_view().as_raw()).ok().flatten()?;
            AnyView::from_raw(known).try_to_owned().ok()
        }
    }

    /// Caches a function that was found under a name. If another thread was faster, returns that
    /// thread's function, for all threads to use the same one.
    #[inline]
    fn note_found(&self, key: Any, function: Function) -> Result<Function> {
        let _one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.found_before(&key) {
            return known.to();
        }
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the
        // lock.
        let mut found = unsafe { (*embedded::body_ptr::<TVMFFIModuleCell>(self.as_ptr())).import_lookup_cache };
        if is_nothing_found(found) {
            let Ok(own) = embedded::map::new_map(Vec::new()) else { return Ok(function) };
            drop(self.replace_found(own));
            found = own;
        }
        let value = function.clone().into_any().into_raw();
        // SAFETY: as above, and the map belongs to this module; it takes ownership of key and
        // value.
        let _ = unsafe { embedded::map::set(found, key.into_raw(), value) };
        Ok(function)
    }
}
