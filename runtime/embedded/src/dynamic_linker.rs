//! The dynamic linker: loaded files, addresses of symbols, and the file that contains an address.
//! All calls of `dl*` functions are in this module.
//!
//! On systems other than Unix nothing is found, and attempts to load a library fail with
//! [`UNSUPPORTED`].

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::ffi::CString;

/// A scope in which symbols are searched: a loaded file, or one of the dynamic linker's own search
/// orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope(*mut c_void);

// SAFETY: the dynamic linker's handles may be used from any thread.
unsafe impl Send for Scope {}
// SAFETY: as above.
unsafe impl Sync for Scope {}

impl Scope {
    /// All files whose symbols are globally visible.
    pub const DEFAULT: Self = Self(system::DEFAULT);
    /// The files after the calling file in the order of [`Scope::DEFAULT`].
    pub const NEXT: Self = Self(system::NEXT);

    /// Opens a file that is loaded already; none of its code runs. It stays loaded until the scope
    /// is closed.
    pub fn loaded(name: &CStr) -> Option<Self> {
        Self::of(Some(name), flags::LAZY | flags::NOLOAD)
    }

    /// Opens the program.
    pub fn program() -> Option<Self> {
        Self::of(None, flags::LAZY)
    }

    /// Loads a file with `dlopen` and its flags.
    ///
    /// # Safety
    /// Its constructors run: the caller trusts it.
    pub unsafe fn open(name: &CStr, flags: c_int) -> Option<Self> {
        Self::of(Some(name), flags)
    }

    fn of(name: Option<&CStr>, flags: c_int) -> Option<Self> {
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the name is a C string or NULL. Only `open` can run code (initializers of the
        // library), which its caller has to allow.
        let handle = unsafe { system::open(name, flags) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The address of a symbol; NULL if there is none.
    #[inline]
    pub fn symbol(self, name: &CStr) -> *mut c_void {
        // SAFETY: the scope is open, by the promise of `close`; the name is a C string.
        unsafe { system::symbol(self.0, name.as_ptr()) }
    }

    /// Closes the file, which may then be unloaded.
    ///
    /// # Safety
    /// The scope was opened, is closed once, and no copy of it is used afterwards; neither is
    /// anything that only this scope kept loaded.
    pub unsafe fn close(self) {
        // SAFETY: promised by the caller.
        unsafe { system::close(self.0) };
    }
}

/// Keeps a loaded file in the process permanently; returns false if no file of this name is loaded.
pub fn keep_loaded(name: &CStr) -> bool {
    let scope = Scope::of(Some(name), flags::LAZY | flags::NOLOAD | flags::NODELETE);
    // SAFETY: opened above and not used any more; the file stays.
    scope.is_some_and(|scope| unsafe {
        scope.close();
        true
    })
}

/// The dynamic linker's last error message on this thread.
///
/// The text is borrowed by the function because the next call of the dynamic linker may change it.
pub fn with_last_error<R>(read: impl FnOnce(Option<&CStr>) -> R) -> R {
    // SAFETY: the text is NULL or valid until this thread calls the dynamic linker again, and
    // `read` has ended by then: it cannot keep the text, and does not call the dynamic linker.
    read(unsafe { system::error().as_ref().map(|text| CStr::from_ptr(text)) })
}

/// A symbol of a C++ runtime in this process, which need not be globally visible; NULL if there is
/// none. There may be several runtimes: only for functions that work the same in all of them.
pub fn cpp_runtime_symbol(name: &CStr) -> *mut c_void {
    let visible = Scope::DEFAULT.symbol(name);
    if !visible.is_null() {
        return visible;
    }
    Scope::loaded(c"libstdc++.so.6").map_or(ptr::null_mut(), |runtime| runtime.symbol(name))
}

/// A symbol of the file that contains an address; `None` if that file has no such symbol, which
/// need not be globally visible.
pub fn symbol_beside(address: *const c_void, name: &CStr) -> Option<*mut c_void> {
    let info = info_at(address)?;
    // The name of the program is the one from its command line, which may not be a valid path to
    // it.
    // SAFETY: the name is a C string while the file is loaded, which it is: the address is in its
    // code or data.
    let file = Scope::loaded(unsafe { CStr::from_ptr(info.dli_fname) }).or_else(Scope::program)?;
    let symbol = file.symbol(name);
    // SAFETY: opened above, once; the file stays for as long as it does without this.
    unsafe { file.close() };
    // The files that it depends on are searched, too.
    (!symbol.is_null() && base_at(symbol) == Some(info.dli_fbase)).then_some(symbol)
}

fn info_at(address: *const c_void) -> Option<system::Info> {
    // SAFETY: a plain query, which fills `info` in when it succeeds; zeros are valid before.
    unsafe {
        let mut info: system::Info = core::mem::zeroed();
        (system::look_up(address, &mut info) != 0 && !info.dli_fname.is_null()).then_some(info)
    }
}

/// The base address of the file that contains an address.
pub fn base_at(address: *const c_void) -> Option<*mut c_void> {
    info_at(address).map(|info| info.dli_fbase)
}

/// The name of the file that contains an address.
pub fn file_at(address: *const c_void) -> Option<CString> {
    // SAFETY: the name is a C string while the file is loaded, which it is: the address is in its
    // code or data.
    info_at(address).map(|info| unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

/// The exported symbol that contains an address.
pub fn symbol_at(address: *const c_void) -> Option<CString> {
    let name = info_at(address)?.dli_sname;
    // SAFETY: as in `file_at`.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_owned())
}

/// Passes each loaded file to `look`, until it returns true. It must not load or unload any.
#[cfg(target_os = "linux")]
pub fn each_loaded(mut look: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _size: usize, look: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid description, and `look` is the closure given to
        // it below.
        unsafe { c_int::from((*look.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>())(&*info)) }
    }
    // SAFETY: the callback matches and the closure outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut look).cast()) };
}

/// The names of the loaded files, without the program.
#[cfg(target_os = "linux")]
pub fn loaded_files() -> Vec<CString> {
    let mut names = Vec::new();
    each_loaded(&mut |info| {
        // SAFETY: the name is NULL or a C string.
        if let Some(name) = unsafe { info.dlpi_name.as_ref().map(|name| CStr::from_ptr(name)) }
            && !name.is_empty()
        {
            names.push(name.to_owned());
        }
        false
    });
    names
}

/// The names of the loaded files; empty, because the system does not report them.
#[cfg(not(target_os = "linux"))]
pub fn loaded_files() -> Vec<CString> {
    Vec::new()
}

/// The flags of `dlopen`: the way a file is loaded.
#[cfg(unix)]
pub mod flags {
    pub use libc::{
        RTLD_GLOBAL as GLOBAL, RTLD_LAZY as LAZY, RTLD_LOCAL as LOCAL, RTLD_NODELETE as NODELETE,
        RTLD_NOLOAD as NOLOAD, RTLD_NOW as NOW,
    };
}

/// The flags for loading a file, which have no effect on this system.
#[cfg(not(unix))]
#[expect(missing_docs, reason = "as the flags of `dlopen`")]
pub mod flags {
    use core::ffi::c_int;

    pub const LAZY: c_int = 1;
    pub const NOW: c_int = 2;
    pub const NOLOAD: c_int = 4;
    pub const GLOBAL: c_int = 0x100;
    pub const LOCAL: c_int = 0;
    pub const NODELETE: c_int = 0x1000;
}

#[cfg(unix)]
mod system {
    pub(super) use libc::{
        Dl_info as Info, RTLD_DEFAULT as DEFAULT, RTLD_NEXT as NEXT, dladdr as look_up, dlclose as close,
        dlerror as error, dlopen as open, dlsym as symbol,
    };
}

/// The error message on systems where libraries cannot be loaded while a program runs.
pub const UNSUPPORTED: &CStr = c"Kernpack does not load libraries on this system yet; Linux is supported";

#[cfg(not(unix))]
mod system {
    use core::ffi::{c_char, c_int, c_void};
    use core::ptr;

    pub(super) const DEFAULT: *mut c_void = ptr::null_mut();
    pub(super) const NEXT: *mut c_void = ptr::null_mut();

    #[repr(C)]
    pub(super) struct Info {
        pub(super) dli_fname: *const c_char,
        pub(super) dli_fbase: *mut c_void,
        pub(super) dli_sname: *const c_char,
    }

    pub(super) unsafe fn open(_: *const c_char, _: c_int) -> *mut c_void {
        ptr::null_mut()
    }

    pub(super) unsafe fn symbol(_: *mut c_void, _: *const c_char) -> *mut c_void {
        ptr::null_mut()
    }

    pub(super) unsafe fn close(_: *mut c_void) -> c_int {
        0
    }

    pub(super) unsafe fn error() -> *const c_char {
        super::UNSUPPORTED.as_ptr()
    }

    pub(super) unsafe fn look_up(_: *const c_void, _: &mut Info) -> c_int {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_symbols_and_addresses() {
        let strlen = Scope::DEFAULT.symbol(c"strlen");
        assert!(!strlen.is_null());
        assert!(Scope::DEFAULT.symbol(c"kernpack_has_no_such_symbol").is_null());
        let libc = file_at(strlen).unwrap();
        assert!(loaded_files().contains(&libc), "{libc:?}");
        assert!(Scope::loaded(&libc).is_some() && Scope::loaded(c"libnowhere.so").is_none());
        assert!(keep_loaded(&libc) && !keep_loaded(c"libnowhere.so"));
        assert_eq!(base_at(strlen), base_at(Scope::DEFAULT.symbol(c"memcpy")));
        let memcpy = symbol_beside(strlen, c"memcpy").unwrap();
        assert_eq!(base_at(strlen), base_at(memcpy));
        // The program depends on libc, and has no such symbol itself.
        assert_eq!(symbol_beside((base_at as *const ()).cast(), c"memcpy"), None);
        assert_eq!(symbol_beside(ptr::without_provenance(1), c"memcpy"), None);
        assert_ne!(base_at(strlen), base_at((base_at as *const ()).cast()));
        assert_eq!(symbol_at(ptr::without_provenance(1)), None);
        // SAFETY: the file does not exist, so no code is run.
        assert!(unsafe { Scope::open(c"/nowhere/libnowhere.so", flags::LAZY) }.is_none());
        assert!(with_last_error(|text| text.is_some_and(|text| text.to_string_lossy().contains("libnowhere.so"))));
    }
}
