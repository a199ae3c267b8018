use core::ffi::{CStr, c_void};
use core::ops::Range;
use std::borrow::Cow;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::symbols::Symbols;
use crate::Result;
use crate::embedded::dynamic_linker::{Scope, flags, with_last_error};

/// A library that `dlopen` loaded. It stays loaded until the process ends.
pub(in crate::module) struct SharedLibrary {
    scope: Scope,
    path: PathBuf,
    /// The code segment in which a function was last found, which usually contains the next one,
    /// too.
    code: Mutex<Range<usize>>,
}

impl SharedLibrary {
    /// Loads a library, which runs its constructors.
    #[inline]
    pub(in crate::module) fn open(path: &Path) -> Result<Self> {
        let c_path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| crate::error!(ValueError, "the path {} contains a NUL byte", path.display()))?;
        // Objects and functions of a library may outlive the module, so libraries are never
        // unloaded: RTLD_NODELETE.
        // SAFETY: loading runs the library's constructors, which the caller requests.
        let open = |time| unsafe { Scope::open(&c_path, time | flags::LOCAL | flags::NODELETE) };
        let scope = match open(flags::NOW) {
            Some(scope) => scope,
            None => {
                let reason = last_error();
                if lacks_functions(&reason) {
                    return Err(crate::error!(
                        RuntimeError,
                        "cannot load {}: {reason}; a Rust program offers these functions when its build.rs calls \
                         kernpack_build::export_abi(); elsewhere, load libtvm_ffi.so first, with RTLD_GLOBAL",
                        path.display()
                    ));
                }
                // Other missing functions matter only when they are called.
                open(flags::LAZY)
                    .ok_or_else(|| crate::error!(RuntimeError, "cannot load {}: {}", path.display(), last_error()))?
            }
        };
        Ok(Self { scope, path: path.to_owned(), code: Mutex::new(0..0) })
    }

    /// Returns the address of a symbol, NULL if the library does not have it.
    #[inline]
    pub(in crate::module) fn address(&self, name: &CStr) -> *mut c_void {
        self.scope.symbol(name)
    }
}

impl SharedLibrary {
    /// Returns the address of the symbol whose name has two parts; short names do not allocate.
    #[inline]
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
        // A name with a NUL byte is not the name of a symbol.
        whole.map_or(core::ptr::null_mut(), |whole| self.address(&whole))
    }
}

impl Symbols for SharedLibrary {
    #[inline]
    fn symbol(&self, name: &str) -> *mut c_void {
        self.address_of(["", name])
    }

    #[inline]
    fn function(&self, name: &str) -> *mut c_void {
        self.address_of(["__tvm_ffi_", name])
    }

    #[inline]
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    #[inline]
    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    #[inline]
    fn is_code(&self, address: *const c_void) -> bool {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if !code.contains(&address.addr()) {
            match segment(address, PF_X) {
                Some(found) => *code = found,
                None => return false,
            }
        }
        true
    }

    #[inline]
    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]> {
        loaded_bytes(address)
    }
}

impl Drop for SharedLibrary {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed once; RTLD_NODELETE keeps the code and data in place.
        unsafe { self.scope.close() };
    }
}

#[inline]
fn last_error() -> String {
    with_last_error(|text| text.map_or("unknown error".into(), |text| text.to_string_lossy().into_owned()))
}

/// Returns whether the missing symbol or library belongs to an implementation of the ABI.
#[inline]
fn lacks_functions(reason: &str) -> bool {
    reason.contains("undefined symbol: TVM") || reason.contains("libtvm_ffi.so: cannot open")
}

/// Returns the readable memory from `address` to the end of its loaded segment.
#[inline]
fn loaded_bytes<'a>(address: *const u8) -> Option<&'a [u8]> {
    let end = segment(address.cast(), PF_R)?.end;
    // SAFETY: the segment is mapped readable for as long as the library is loaded, which is
    // forever.
    Some(unsafe { core::slice::from_raw_parts(address, end - address as usize) })
}

/// Flags of a segment, as in ELF files.
const PF_X: u32 = 1;
const PF_R: u32 = 4;

/// The same for systems that do not provide this information.
#[cfg(not(target_os = "linux"))]
#[inline]
fn segment(_address: *const c_void, _flag: u32) -> Option<Range<usize>> {
    None
}

/// Returns the loaded segment that contains `address`, if its flags contain `flag`.
#[cfg(target_os = "linux")]
#[inline]
fn segment(address: *const c_void, flag: u32) -> Option<Range<usize>> {
    let mut found = None;
    crate::embedded::dynamic_linker::each_loaded(&mut |info| {
        // SAFETY: a description has `dlpi_phnum` headers.
        let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        found = headers.iter().find_map(|header| {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let segment = start..start.saturating_add(header.p_memsz as usize);
            let is_wanted = header.p_type == libc::PT_LOAD && header.p_flags & flag != 0;
            (is_wanted && segment.contains(&address.addr())).then_some(segment)
        });
        found.is_some()
    });
    found
}
