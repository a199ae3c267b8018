use core::ffi::{CStr, c_char, c_void};
use core::ops::Range;
use std::borrow::Cow;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::symbols::Symbols;
use crate::Result;

/// A library that `dlopen` loaded. It stays loaded for the life of the process.
pub(in crate::module) struct SharedLibrary {
    handle: *mut c_void,
    path: PathBuf,
    /// The segment of code in which a function was found last: where the next one is, too, as a rule.
    code: Mutex<Range<usize>>,
}

// SAFETY: the dynamic linker's handles may be used from any thread.
unsafe impl Send for SharedLibrary {}
// SAFETY: as above.
unsafe impl Sync for SharedLibrary {}

impl SharedLibrary {
    /// Loads a library; its constructors run.
    pub(in crate::module) fn open(path: &Path) -> Result<Self> {
        let c_path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| crate::error!(ValueError, "the path {} contains a NUL byte", path.display()))?;
        // Objects and functions of a library may outlive the module, so nothing is ever unloaded: RTLD_NODELETE.
        let open = |time| {
            // SAFETY: the path is a C string. Loading runs the library's constructors: that is what the caller asks for.
            unsafe { libc::dlopen(c_path.as_ptr(), time | libc::RTLD_LOCAL | libc::RTLD_NODELETE) }
        };
        let mut handle = open(libc::RTLD_NOW);
        if handle.is_null() {
            let reason = last_error();
            if reason.lacks_functions() {
                return Err(crate::error!(
                    RuntimeError,
                    "cannot load {}: {}; a Rust program offers these functions when its build.rs calls kernpack_build::host(); \
                     elsewhere, load libtvm_ffi.so first, with RTLD_GLOBAL",
                    path.display(),
                    reason.text()
                ));
            }
            // Other functions that are nowhere matter when they are called.
            handle = open(libc::RTLD_LAZY);
        }
        if handle.is_null() {
            return Err(crate::error!(RuntimeError, "cannot load {}: {}", path.display(), last_error().text()));
        }
        Ok(Self { handle, path: path.to_owned(), code: Mutex::new(0..0) })
    }

    /// Address of a symbol, NULL when the library does not have it.
    pub(in crate::module) fn address(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is valid, the name is a C string.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }
}

impl SharedLibrary {
    /// Address of the symbol whose name has two parts; short names need no memory.
    fn address_of(&self, [prefix, name]: [&str; 2]) -> *mut c_void {
        let mut short = [0u8; 128];
        let size = prefix.len() + name.len();
        let whole = if size < short.len() {
            short[..prefix.len()].copy_from_slice(prefix.as_bytes());
            short[prefix.len()..size].copy_from_slice(name.as_bytes());
            CStr::from_bytes_with_nul(&short[..=size]).map(Cow::Borrowed).ok()
        } else {
            CString::new([prefix, name].concat()).map(Cow::Owned).ok()
        };
        // A name with a NUL byte is no symbol's.
        whole.map_or(core::ptr::null_mut(), |whole| self.address(&whole))
    }
}

impl Symbols for SharedLibrary {
    fn symbol(&self, name: &str) -> *mut c_void {
        self.address_of(["", name])
    }

    fn function(&self, name: &str) -> *mut c_void {
        self.address_of(["__tvm_ffi_", name])
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn is_code(&self, address: *const c_void) -> bool {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if !code.contains(&address.addr()) {
            match segment(address, libc::PF_X) {
                Some(found) => *code = found,
                None => return false,
            }
        }
        true
    }

    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]> {
        loaded_bytes(address)
    }
}

impl Drop for SharedLibrary {
    fn drop(&mut self) {
        // SAFETY: the handle came from `dlopen` and is closed once; RTLD_NODELETE keeps the code and data in place.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// What the dynamic linker said last, until it is asked for something else.
struct Reason(*const c_char);

fn last_error() -> Reason {
    // SAFETY: a plain query.
    Reason(unsafe { libc::dlerror() })
}

impl Reason {
    /// Whether what is missing is something of an implementation of the ABI.
    fn lacks_functions(&self) -> bool {
        // SAFETY: it is NULL or a C string that is valid until the next call on this thread.
        unsafe {
            !self.0.is_null()
                && (!libc::strstr(self.0, c"undefined symbol: TVM".as_ptr()).is_null()
                    || !libc::strstr(self.0, c"libtvm_ffi.so: cannot open".as_ptr()).is_null())
        }
    }

    fn text(&self) -> Cow<'_, str> {
        if self.0.is_null() {
            return Cow::Borrowed("unknown error");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy()
    }
}

/// The readable memory from `address` to the end of the loaded segment that it is in.
fn loaded_bytes<'a>(address: *const u8) -> Option<&'a [u8]> {
    let end = segment(address.cast(), libc::PF_R)?.end;
    // SAFETY: the segment is mapped readable for as long as the library is loaded, which is forever.
    Some(unsafe { core::slice::from_raw_parts(address, end - address as usize) })
}

/// The loaded segment that `address` is in, if its flags contain `flag`.
fn segment(address: *const c_void, flag: u32) -> Option<Range<usize>> {
    struct Search {
        address: usize,
        flag: u32,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> i32 {
        // SAFETY: `dl_iterate_phdr` passes a valid description with `dlpi_phnum` headers; `search` is the struct below.
        unsafe {
            let search = &mut *search.cast::<Search>();
            for i in 0..usize::from((*info).dlpi_phnum) {
                let header = &*(*info).dlpi_phdr.add(i);
                let start = ((*info).dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
                let segment = start..start.saturating_add(header.p_memsz as usize);
                let wanted = header.p_type == libc::PT_LOAD && header.p_flags & search.flag != 0;
                if wanted && segment.contains(&search.address) {
                    search.found = Some(segment);
                    return 1;
                }
            }
        }
        0
    }
    let mut search = Search { address: address as usize, flag, found: None };
    // SAFETY: the callback matches and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}
