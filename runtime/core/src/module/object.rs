//! The object of a module written in Rust: the cell that the ABI defines, then our own fields.

use core::ffi::c_void;
use core::ptr;
use std::ffi::CString;
use std::sync::OnceLock;

use super::Module;
use super::cpp::vtable::VTABLE;
use super::function_cache::FunctionCache;
use super::implementation::ModuleImpl;
use crate::abi::{TVMFFIModuleCell, TVMFFIObject, type_index};
use crate::embedded;

/// Body of a module object: the ABI's cell, then our own fields.
#[repr(C)]
pub(super) struct ModuleBody {
    cell: TVMFFIModuleCell,
    pub(super) kind: CString,
    cache: FunctionCache,
    pub(super) implementation: Box<dyn ModuleImpl>,
}

// SAFETY: the two handles are references that the body owns; callers order changes to the import
// tree.
unsafe impl Send for ModuleBody {}
// SAFETY: as above.
unsafe impl Sync for ModuleBody {}

impl Drop for ModuleBody {
    #[inline]
    fn drop(&mut self) {
        for handle in [self.cell.imports, self.cell.import_lookup_cache] {
            if !handle.is_null() {
                // SAFETY: the cell owns both references, even if they were replaced meanwhile.
                unsafe { embedded::dec_ref(handle) };
            }
        }
    }
}

/// Returns a new reference to the array that all modules without imports share. An import replaces
/// the array.
#[inline]
fn no_imports() -> *mut TVMFFIObject {
    static EMPTY: OnceLock<usize> = OnceLock::new();
    shared(&EMPTY, || embedded::seq::new_array(Vec::new()))
}

/// Returns a new reference to the map that all modules share as long as no function was found in
/// their imports. Code that stores a function there first creates a map for the module.
#[inline]
pub(super) fn nothing_found() -> *mut TVMFFIObject {
    shared(&NOTHING_FOUND, || embedded::map::new_map(Vec::new()).unwrap_or(ptr::null_mut()))
}

static NOTHING_FOUND: OnceLock<usize> = OnceLock::new();

/// Returns whether this is the map that modules share.
#[inline]
pub(super) fn is_nothing_found(map: *mut TVMFFIObject) -> bool {
    NOTHING_FOUND.get() == Some(&map.addr())
}

/// Returns a new reference to an object that is created once and never freed.
#[inline]
fn shared(place: &OnceLock<usize>, new: fn() -> *mut TVMFFIObject) -> *mut TVMFFIObject {
    let object: *mut TVMFFIObject = ptr::with_exposed_provenance_mut(*place.get_or_init(|| new().expose_provenance()));
    if !object.is_null() {
        // SAFETY: the static owns a reference forever.
        unsafe { embedded::inc_ref(object) };
    }
    object
}

/// Creates a module object.
#[inline]
pub(super) fn new_module(implementation: impl ModuleImpl) -> Module {
    let cell = TVMFFIModuleCell { imports: no_imports(), import_lookup_cache: nothing_found() };
    // C++ code ends a name at its first NUL byte, so this applies to all languages.
    let kind = implementation.kind().split('\0').next().unwrap_or_default();
    let kind = CString::new(kind).unwrap_or_default();
    let body = ModuleBody { cell, kind, cache: FunctionCache::new(), implementation: Box::new(implementation) };
    let vtable = (&raw const VTABLE.kind).cast::<c_void>();
    // SAFETY: the vtable is a static with the slots of the C++ class; the handle takes ownership of
    // a new module object's one reference.
    unsafe { Module::from_raw(embedded::new_polymorphic_object(type_index::MODULE, vtable, body)) }
}

/// Returns the implementation of a module that [`new_module`] created in this artifact; `None` for
/// all others.
///
/// # Safety
/// `object` is a live module.
#[inline]
pub(super) unsafe fn implementation<'a>(object: *mut TVMFFIObject) -> Option<&'a dyn ModuleImpl> {
    // SAFETY: promised by the caller.
    unsafe { own_body(object) }.map(|body| &*body.implementation)
}

/// The function cache of a module of this artifact; `None` for all others.
///
/// # Safety
/// `object` is a live module.
#[inline]
pub(super) unsafe fn function_cache<'a>(object: *mut TVMFFIObject) -> Option<&'a FunctionCache> {
    // SAFETY: promised by the caller.
    unsafe { own_body(object) }.map(|body| &body.cache)
}

/// # Safety
/// `object` is a live module.
#[inline]
unsafe fn own_body<'a>(object: *mut TVMFFIObject) -> Option<&'a ModuleBody> {
    // SAFETY: every module has a vtable pointer 8 bytes before its header; our vtable identifies
    // the modules with our body.
    unsafe {
        let vtable = *object.cast::<*const c_void>().sub(1);
        if !ptr::eq(vtable, (&raw const VTABLE.kind).cast()) {
            return None;
        }
        Some(embedded::body::<ModuleBody>(object))
    }
}
