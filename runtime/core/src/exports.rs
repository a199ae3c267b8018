//! The symbols that the runtime adds to each artifact that it is linked into, once: the handshake, the library context, and how
//! kernels in C raise errors; and what the artifact's constructor does.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;

use crate::abi::{ApiTable, SafeCall};
use crate::registration::{self, Collected};
use crate::{Error, host};

/// What the loader of this library stores for its imports to be found; see module.md section 1.
#[unsafe(no_mangle)]
static __tvm_ffi__library_ctx: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The handshake: a Rust host that loads this library hands over its table. Returns the table that this library uses; NULL
/// with an error raised in the host's slot when it cannot join or register. With NULL, only says which table it uses.
///
/// # Safety
/// `host_table` is NULL or a table that lives forever.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kernpack_api_v1(host_table: *const ApiTable) -> *const ApiTable {
    if host_table.is_null() {
        return host::api();
    }
    // SAFETY: promised by the caller.
    match unsafe { host::join(host_table) } {
        Ok(()) => host::bound(),
        Err(error) => {
            // SAFETY: `join` checked the table before anything else, unless it is of another layout; then there is no way
            // to raise, and NULL alone says that the library cannot be used.
            unsafe {
                if (*host_table).magic == ApiTable::MAGIC {
                    let object = error.into_raw();
                    ((*host_table).error_set_raised)(object);
                    crate::embedded::dec_ref(object);
                }
            }
            ptr::null()
        }
    }
}

/// The table that this library is bound to, NULL when it is not bound yet.
#[unsafe(no_mangle)]
extern "C" fn __kernpack_bound_api_v1() -> *const ApiTable {
    host::bound()
}

/// The address of one of the 50 C functions in the implementation that this library uses, NULL for another name: how a plain C
/// program that loads the library reaches errors, strings and global functions when no libtvm_ffi is installed.
///
/// # Safety
/// `name` is a NUL-terminated string, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn kernpack_symbol(name: *const c_char) -> *mut c_void {
    if name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_or(ptr::null_mut(), |name| host::api().function(name))
}

/// Raises an error from a kernel in C and returns -1: `return kernpack_raise("ValueError", "radius must be positive");`
///
/// # Safety
/// Both are NUL-terminated strings, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn kernpack_raise(kind: *const c_char, message: *const c_char) -> i32 {
    let text = |text: *const c_char| {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: promised by the caller.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let kind = match text(kind) {
        kind if kind.is_empty() => "RuntimeError".to_owned(),
        kind => kind,
    };
    Error::with_backtrace(&kind, &text(message), "").raise();
    -1
}

/// Runs when the artifact is loaded, in the constructor of the crate `kernpack`: takes over what the artifact brings, and registers
/// it at once when libtvm_ffi is there. Without one, a Rust host's handshake or the first use does it.
pub fn on_load(collected: fn() -> Collected) {
    // A panic must not unwind into the dynamic linker.
    let _ = std::panic::catch_unwind(|| {
        stay_loaded();
        registration::collect(collected());
        host::bind_if_process_has_one();
    });
}

/// Objects and functions of this library may outlive the module that it was loaded as, so it is never unloaded.
fn stay_loaded() {
    // SAFETY: plain queries of the dynamic linker; RTLD_NOLOAD runs no code. For a program, which is not unloaded anyway, the
    // look-up by name fails.
    unsafe {
        let Some(own) = artifact_of(own_address()) else { return };
        let handle = libc::dlopen(own.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        if !handle.is_null() {
            libc::dlclose(handle);
        }
    }
}

/// An address in this very artifact. An exported symbol's would not do: among libraries that are loaded with RTLD_GLOBAL the
/// first definition of a name serves them all.
fn own_address() -> *const c_void {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    (&raw const OWN).cast()
}

/// The artifact that an address is in; its file name is not NULL.
fn artifact_of(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: a plain query, which fills `info` in when it succeeds; zeros are valid before.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null()).then_some(info)
    }
}

/// Whether an address is in this very artifact.
pub(crate) fn is_own(address: *const c_void) -> bool {
    is_same_artifact(address, own_address())
}

/// Whether two addresses are in one artifact.
pub(crate) fn is_same_artifact(a: *const c_void, b: *const c_void) -> bool {
    let base = |address| artifact_of(address).map(|artifact| artifact.dli_fbase);
    base(a).is_some() && base(a) == base(b)
}

/// The file of the artifact that an address is in.
pub(crate) fn file_of(address: *const c_void) -> Option<String> {
    // SAFETY: a file name of the dynamic linker is NUL-terminated.
    artifact_of(address).map(|artifact| unsafe { CStr::from_ptr(artifact.dli_fname) }.to_string_lossy().into_owned())
}

/// The entry point that this very artifact exports as `__tvm_ffi_<name>`. `call` is the address that its own code sees, which
/// is another library's when both were loaded with RTLD_GLOBAL and export the same name.
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

/// What the loader stored; NULL when this artifact was not loaded as a module.
pub(crate) fn library_context() -> *mut c_void {
    match own_symbol("__tvm_ffi__library_ctx") {
        // SAFETY: this artifact's own variable, defined above.
        Some(variable) => unsafe { (*variable.cast::<AtomicPtr<c_void>>()).load(Ordering::Acquire) },
        None => ptr::null_mut(),
    }
}

/// Address of a symbol that this very artifact exports.
pub(crate) fn own_symbol(name: &str) -> Option<*const u8> {
    let name = CString::new(name).ok()?;
    // SAFETY: plain queries of the dynamic linker; RTLD_NOLOAD only finds what is loaded, this artifact, which stays loaded
    // while its code runs. A symbol of another artifact is told apart by its base address.
    unsafe {
        let own = artifact_of(own_address())?;
        let mut handle = libc::dlopen(own.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            handle = libc::dlopen(ptr::null(), libc::RTLD_LAZY);
        }
        if handle.is_null() {
            return None;
        }
        let symbol = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        if symbol.is_null() || artifact_of(symbol)?.dli_fbase != own.dli_fbase {
            return None;
        }
        Some(symbol.cast::<u8>().cast_const())
    }
}
