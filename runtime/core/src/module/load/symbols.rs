use core::any::Any;
use core::ffi::c_void;
use std::path::Path;

use crate::module::library_bin::LibraryBin;

/// The source of a library module's functions: a loaded file, or the symbols that a program
/// registered for itself.
pub(in crate::module) trait Symbols: Any + Send + Sync {
    /// Address of a symbol, NULL when the library does not have it.
    fn symbol(&self, name: &str) -> *mut c_void;

    /// Address of a packed function, NULL when the library does not have it.
    #[inline]
    fn function(&self, name: &str) -> *mut c_void {
        self.symbol(&format!("__tvm_ffi_{name}"))
    }

    /// The name of the library in messages.
    fn name(&self) -> String;

    /// The file that it was loaded from.
    fn path(&self) -> Option<&Path>;

    /// Returns whether the target of a symbol is callable.
    fn is_code(&self, address: *const c_void) -> bool;

    /// The memory that can be read from the address of the library's `library_bin` on: at least all of it when it is sound.
    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]>;
}

/// The bytes of an import tree that is in this process, whose size is in front.
///
/// # Safety
/// The address is that of a tree that a packer wrote, and it stays.
#[inline]
pub(super) unsafe fn packed_tree(address: *const u8) -> &'static [u8] {
    // SAFETY: promised by the caller: a tree begins with the eight bytes of its size.
    unsafe {
        let header = address.cast::<[u8; 8]>().read();
        let size = LibraryBin::total_size(header).unwrap_or(header.len());
        core::slice::from_raw_parts(address, size)
    }
}
