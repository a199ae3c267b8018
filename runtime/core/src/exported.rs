//! The symbols that the runtime adds once to each artifact that it is linked into: the handshake,
//! the library context, and the function with which C kernels raise errors.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::AtomicPtr;

use crate::abi::ApiTable;
use crate::{Error, provider};

/// The module context that the loader of this library stores, through which its imports are found;
/// see module.md section 1.
#[unsafe(no_mangle)]
static __tvm_ffi__library_ctx: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The import tree that a loader finds: an indirect function, which the dynamic linker calls
/// whenever the symbol is looked up.
///
/// This way a library without modules does not have a tree, and one whose types conflict with
/// others exposes a tree that fails to load; the stock loader does not query anything else that
/// could fail. On other systems the symbol is the tree itself
/// (`kernpack_formats::library_bin::has_resolver`).
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn __tvm_ffi__library_bin() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".type __tvm_ffi__library_bin, %gnu_indirect_function",
        "jmp {tree}",
        tree = sym crate::artifact::shown_tree
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".type __tvm_ffi__library_bin, %gnu_indirect_function",
        "b {tree}",
        tree = sym crate::artifact::shown_tree
    );
}

/// The handshake: a Rust program that loads this library passes its table. Returns the table that
/// this library uses; NULL with an error raised in the provider's slot if it cannot join or
/// register. With NULL, only returns the table in use.
///
/// # Safety
/// `host_table` is NULL or a table that lives forever.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kernpack_api_v1(host_table: *const ApiTable) -> *const ApiTable {
    if host_table.is_null() {
        return provider::api();
    }
    // SAFETY: promised by the caller.
    match unsafe { provider::join(host_table) } {
        Ok(()) => provider::bound(),
        Err(problem) => {
            let error = Error::runtime_error(problem);
            // SAFETY: `join` checked the table before anything else, unless it has another layout;
            // in that case the error cannot be raised, and NULL alone means that the library cannot
            // be used.
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

/// Returns the table that this library is bound to, NULL if it is not bound yet.
#[unsafe(no_mangle)]
extern "C" fn __kernpack_bound_api_v1() -> *const ApiTable {
    provider::bound()
}

/// Returns the address of one of the 50 C functions in the implementation that this library uses,
/// NULL for another name. This gives a plain C program that loads the library access to errors,
/// strings and global functions if libtvm_ffi is not installed.
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
    name.to_str().map_or(ptr::null_mut(), |name| provider::api().function(name))
}

/// Raises an error from a C kernel and returns -1:
/// `return kernpack_raise("ValueError", "radius must be positive");`
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
