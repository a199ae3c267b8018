use core::any::Any;
use core::ffi::c_void;
use std::path::Path;

use crate::module::library_bin::LibraryBin;

/// The source of a library module's functions: a loaded file, or the symbols that a program
/// registered for itself.
pub(in crate::module) trait Symbols: Any + Send + Sync {
    /// Returns the address of a symbol, NULL if the library does not have it.
    fn symbol(&self, name: &str) -> *mut c_void;

    /// Returns the address of a packed function, NULL if the library does not have it.
    #[inline]
    fn function(&self, name: &str) -> *mut c_void {
        self.symbol(&format!("__tvm_ffi_{name}"))
    }

    /// The name of the library in messages.
    fn name(&self) -> String;

    /// The file that the library was loaded from.
    fn path(&self) -> Option<&Path>;

    /// Returns whether the target of a symbol is callable.
    fn is_code(&self, address: *const c_void) -> bool;

    /// Returns the memory that can be read starting at the address of the library's `library_bin`:
    /// at least the whole blob if it is valid.
    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]>;
}

/// Returns the bytes of an import tree in this process, which begins with its size.
///
/// # Safety
/// The address is that of a tree that a packer wrote, and the tree is never freed.
#[inline]
pub(super) unsafe fn packed_tree(address: *const u8) -> &'static [u8] {
    // SAFETY: promised by the caller: a tree begins with the eight bytes of its size.
    unsafe {
        let header = address.cast::<[u8; 8]>().read();
        let size = LibraryBin::total_size(header).unwrap_or(header.len());
        core::slice::from_raw_parts(address, size)
    }
}
