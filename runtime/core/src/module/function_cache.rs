//! The functions that were found in a module, so that finding them again takes no lock and allocates nothing.
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

/// Says of an entry that the function is the module's own.
const OWN: u64 = 1;

/// Says of an entry that nothing was found yet.
const NOTHING: u64 = 0;

/// The number of the import trees as they are.
#[inline]
pub(super) fn tree() -> u64 {
    import_order::last_change()
}

/// Says that an import tree has changed.
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
    /// Held while the entry changes.
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

    /// The function that was found under this name: the module's own, or with `imports` also one of what it imports.
    #[inline]
    pub(super) fn get(&self, name: &str, imports: bool) -> Option<Function> {
        let found = self.found.get(name.as_bytes())?;
        let tree_of_entry = found.tree.load(Ordering::Acquire);
        if tree_of_entry != OWN && !(imports && tree_of_entry == tree()) {
            return None;
        }
        let function = found.function.copy();
        // SAFETY: a function went in, and the copy is a reference of its own.
        (!function.is_null()).then(|| unsafe { Function::from_raw(function) })
    }

    /// Notes the module's own function.
    #[inline]
    pub(super) fn note_own(&self, name: &str, function: &Function) {
        self.note(name, function, OWN);
    }

    /// Notes what was found in the imports; `tree` is what [`tree`] said before the search began.
    #[inline]
    pub(super) fn note_import(&self, name: &str, function: &Function, tree: u64) {
        self.note(name, function, tree);
    }

    #[inline]
    fn note(&self, name: &str, function: &Function, tree: u64) {
        let object = function.clone().into_any().into_raw();
        // SAFETY: a function value is a pointer to its object.
        let object = unsafe { object.payload.v_obj };
        // SAFETY: the reference taken above is given up here where it cannot be kept.
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
        // What a slow search found in older trees says nothing about those of now.
        if known == OWN || (tree != OWN && known > tree) {
            drop(alone);
            return give_up();
        }
        // Invalid while it changes: a reader that sees the new number sees the new function, too.
        found.tree.store(NOTHING, Ordering::Release);
        // SAFETY: the function is alive, its reference becomes the entry's, and this thread alone replaces it.
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
        // Later than what other tests of this program change meanwhile.
        let now = tree() + (1 << 40);
        cache.note_import("f", &new, now);
        cache.note_import("f", &old, now - 1);
        let found = cache.found.get(b"f").unwrap();
        assert_eq!(found.tree.load(Ordering::Relaxed), now);
        // SAFETY: a copy is a reference of its own.
        let kept = unsafe { Function::from_raw(found.function.copy()) };
        assert_eq!(kept.call_as::<i64>(()).unwrap(), 2);
        cache.note_own("f", &old);
        assert_eq!(cache.get("f", false).unwrap().call_as::<i64>(()).unwrap(), 1);
    }
}
