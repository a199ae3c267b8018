//! The cache of functions that were found in a module, so that finding them again does not take a
//! lock or allocate.
//!
//! A function that was found in the imports stays valid until an import tree changes: every change
//! has a number ([`tree`]), and an entry stores the number at which it was found. A module's own
//! functions have [`OWN`] there and stay valid as long as the module lives.

use core::ptr::null_mut;

use super::{Module, import_order};
use crate::abi::TVMFFIObject;
use crate::embedded::atomic::{AtomicPtr, AtomicU64, Mutex, Ordering, lock};
use crate::embedded::name_table::NameTable;
use crate::embedded::shared_ref::SharedRef;
use crate::function::Function;
use crate::value::IntoAny;

/// Marks an entry whose function is the module's own.
const OWN: u64 = 1;

/// Marks an entry without a function.
const NOTHING: u64 = 0;

/// Returns the current number of the import trees.
#[inline]
pub(super) fn tree() -> u64 {
    import_order::last_change()
}

/// Records that an import tree has changed.
#[doc(hidden)]
#[inline]
pub fn tree_changed() {
    import_order::note_change();
}

/// The function that was found under a name.
struct Found {
    function: SharedRef<TVMFFIObject>,
    /// [`NOTHING`], [`OWN`], or the number of the import trees in which it was found.
    tree: AtomicU64,
    /// Locked while the entry changes.
    change: Mutex<()>,
}

impl Drop for Found {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: no other code has the entry any more.
        drop(unsafe { self.function.replace(null_mut()) });
    }
}

/// The functions found in one module.
pub(super) struct FunctionCache {
    found: NameTable<Found>,
}

impl FunctionCache {
    #[inline]
    pub(super) const fn new() -> Self {
        // SAFETY: NULL and 0.
        Self { found: unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) } }
    }

    /// Returns the function that was found under this name: the module's own, or with `imports`
    /// also one of its imports.
    #[inline]
    pub(super) fn get(&self, name: &str, imports: bool) -> Option<Function> {
        let found = self.found.get(name.as_bytes())?;
        let tree_of_entry = found.tree.load(Ordering::Acquire);
        if tree_of_entry != OWN && !(imports && tree_of_entry == tree()) {
            return None;
        }
        let function = found.function.copy();
        // SAFETY: only functions are stored, and the copy has its own reference.
        (!function.is_null()).then(|| unsafe { Function::from_raw(function) })
    }

    /// Stores the module's own function.
    #[inline]
    pub(super) fn note_own(&self, name: &str, function: &Function) {
        self.note(name, function, OWN);
    }

    /// Stores a function that was found in the imports; `tree` is the result of [`tree`] before the
    /// search began.
    #[inline]
    pub(super) fn note_import(&self, name: &str, function: &Function, tree: u64) {
        self.note(name, function, tree);
    }

    #[inline]
    fn note(&self, name: &str, function: &Function, tree: u64) {
        let object = function.clone().into_any().into_raw();
        // SAFETY: a function value is a pointer to its object.
        let object = unsafe { object.payload.v_obj };
        // SAFETY: the reference taken above is released here if it cannot be stored.
        let give_up = || drop(unsafe { Function::from_raw(object) });
        if !SharedRef::can_hold(object) {
            return give_up();
        }
        let new = || Found {
            // SAFETY: the word is NULL.
            function: unsafe { SharedRef::new(AtomicPtr::new(null_mut())) },
            tree: AtomicU64::new(NOTHING),
            change: Mutex::new(()),
        };
        let found = self.found.get_or_insert(name.as_bytes(), new);
        let alone = lock(&found.change);
        let known = found.tree.load(Ordering::Relaxed);
        // The result of a slow search in older trees is not valid for the current ones.
        if known == OWN || (tree != OWN && known > tree) {
            drop(alone);
            return give_up();
        }
        // Invalid while it changes: a reader that sees the new number also sees the new function.
        found.tree.store(NOTHING, Ordering::Release);
        // SAFETY: the function is alive, the entry takes ownership of its reference, and only this
        // thread replaces it.
        let old = unsafe { found.function.replace(object) };
        found.tree.store(tree, Ordering::Release);
        drop(alone);
        // The destructor of the old function may look functions up.
        drop(old);
    }
}

/// Returns whether a function that was found in the last of `modules`, after it was not found in
/// those before it, stays valid until a change is reported here: true if this artifact made all of
/// them and their functions never change.
#[inline]
pub(super) fn is_cacheable(modules: &[Module]) -> bool {
    // SAFETY: the modules are alive.
    let of = |module: &Module| unsafe { super::object::implementation(module.as_ptr()) };
    modules.iter().all(|module| of(module).is_some_and(|implementation| implementation.has_fixed_functions()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_search_does_not_undo_a_later_one() {
        let cache = FunctionCache::new();
        let (old, new) = (Function::from_fn(|| 1i64), Function::from_fn(|| 2i64));
        // Later than the changes that other tests of this program make meanwhile.
        let now = tree() + (1 << 40);
        cache.note_import("f", &new, now);
        cache.note_import("f", &old, now - 1);
        let found = cache.found.get(b"f").unwrap();
        assert_eq!(found.tree.load(Ordering::Relaxed), now);
        // SAFETY: a copy has its own reference.
        let kept = unsafe { Function::from_raw(found.function.copy()) };
        assert_eq!(kept.call_as::<i64>(()).unwrap(), 2);
        cache.note_own("f", &old);
        assert_eq!(cache.get("f", false).unwrap().call_as::<i64>(()).unwrap(), 1);
    }
}
