//! The current artifact: the library or program that the runtime is linked into.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;

use crate::abi::SafeCall;
use crate::embedded::dynamic_linker::{self, Scope};

/// Keeps this library from being unloaded: its objects and functions may outlive the module that it
/// was loaded as.
pub(crate) fn stay_loaded() {
    // For a program, which is never unloaded anyway, the lookup by name fails.
    if let Some(own) = dynamic_linker::file_at(own_address()) {
        dynamic_linker::keep_loaded(&own);
    }
}

/// Returns an address in this artifact. The address of an exported symbol would not be reliable:
/// among libraries that are loaded with RTLD_GLOBAL, the first definition of a name serves them
/// all.
fn own_address() -> *const c_void {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    (&raw const OWN).cast()
}

/// Returns whether an address is in this artifact.
pub(crate) fn is_own(address: *const c_void) -> bool {
    is_same_artifact(address, own_address())
}

/// Returns whether two addresses are in the same artifact.
pub(crate) fn is_same_artifact(a: *const c_void, b: *const c_void) -> bool {
    let base = dynamic_linker::base_at(a);
    base.is_some() && base == dynamic_linker::base_at(b)
}

/// Returns the file of the artifact that contains an address.
pub(crate) fn file_of(address: *const c_void) -> Option<String> {
    dynamic_linker::file_at(address).map(|file| file.to_string_lossy().into_owned())
}

/// Returns the entry point that this artifact exports as `__tvm_ffi_<name>`. `call` is the address
/// that its own code sees, which belongs to another library if both were loaded with RTLD_GLOBAL
/// and export the same name.
pub(crate) fn own_entry_point(name: &str, call: SafeCall) -> SafeCall {
    if is_own(call as *const c_void) {
        return call;
    }
    match own_symbol(&format!("__tvm_ffi_{name}")) {
        // SAFETY: the prefix is reserved for functions of this type.
        Some(symbol) => unsafe { core::mem::transmute::<*const u8, SafeCall>(symbol) },
        None => call,
    }
}

/// The import tree that loaders find in this artifact; NULL for none. See `exported.rs`, which
/// defines the symbol.
static SHOWN_TREE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Makes loaders find this import tree from now on. It is never replaced.
pub(crate) fn show_tree(tree: *const u8) {
    SHOWN_TREE.store(tree.cast_mut(), Ordering::Release);
}

/// Makes loaders find the tree in this artifact, unless another one was set before: that of a
/// refusal stays.
pub(crate) fn show_carried_tree(tree: *const u8) {
    let _ = SHOWN_TREE.compare_exchange(ptr::null_mut(), tree.cast_mut(), Ordering::Release, Ordering::Relaxed);
}

/// The resolver of the import tree's symbol.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) extern "C" fn shown_tree() -> *mut u8 {
    SHOWN_TREE.load(Ordering::Acquire)
}

/// The module context that the loader stored; NULL if this artifact was not loaded as a module.
pub(crate) fn library_context() -> *mut c_void {
    match own_symbol("__tvm_ffi__library_ctx") {
        // SAFETY: this artifact's own variable, defined in `exported.rs`.
        Some(variable) => unsafe { (*variable.cast::<AtomicPtr<c_void>>()).load(Ordering::Acquire) },
        None => ptr::null_mut(),
    }
}

/// Returns the address of a symbol that this artifact itself exports.
pub(crate) fn own_symbol(name: &str) -> Option<*const u8> {
    let name = CString::new(name).ok()?;
    let own = own_address();
    let scope = Scope::loaded(&dynamic_linker::file_at(own)?).or_else(Scope::program)?;
    let symbol = scope.symbol(&name);
    // SAFETY: opened above and not used any more; this artifact stays loaded while its code runs.
    unsafe { scope.close() };
    // The base address distinguishes a symbol of another artifact.
    (!symbol.is_null() && is_same_artifact(symbol, own)).then(|| symbol.cast::<u8>().cast_const())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stays() {
        let (carried, refusal) = ([1u8], [2u8]);
        let shown = || SHOWN_TREE.load(Ordering::Relaxed).cast_const();
        show_carried_tree(carried.as_ptr());
        assert_eq!(shown(), carried.as_ptr());
        show_tree(refusal.as_ptr());
        show_carried_tree(carried.as_ptr());
        assert_eq!(shown(), refusal.as_ptr());
        show_tree(ptr::null());
    }
}
