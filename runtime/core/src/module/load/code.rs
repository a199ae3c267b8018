//! Code that a compiler has written to the memory of this process: connected like a loaded library.

use core::any::Any;
use core::ffi::{CStr, c_void};
use std::sync::Arc;

use super::context;
use crate::abi::{SafeCall, TVMFFIAny};
use crate::function::Function;
use crate::module::Module;
use crate::{Result, embedded, provider};

/// Functions of the runtime that generated code calls by name, with their addresses.
#[doc(hidden)]
#[inline]
pub fn code_symbols() -> Vec<(&'static CStr, *mut c_void)> {
    let api = provider::api();
    let mut symbols: Vec<(&'static CStr, *mut c_void)> = context::symbols()
        .into_iter()
        .filter_map(|(name, address)| {
            Some((CStr::from_bytes_with_nul(name.to_bytes_with_nul().get(2..)?).ok()?, address))
        })
        .collect();
    symbols.extend([
        (c"TVMFFIErrorSetRaisedFromCStrParts", api.error_set_raised_from_c_str_parts as *mut c_void),
        (c"TVMFFIEnvModRegisterSystemLibSymbol", api.env_mod_register_system_lib_symbol as *mut c_void),
        (c"TVMFFIFunctionGetGlobal", api.function_get_global as *mut c_void),
    ]);
    symbols
}

/// Gives code access to the runtime's functions and to its module's imports: sets the variables
/// that a loader sets in a library. `symbol` returns the address of a symbol of the code, or NULL.
///
/// A module whose code searches its imports is never freed, just as a library is never unloaded.
///
/// # Errors
/// Returns the provider's error.
#[doc(hidden)]
#[inline]
pub fn connect_code(module: &Module, symbol: impl Fn(&str) -> *mut c_void) -> Result<()> {
    context::offer_context_symbols()?;
    context::offer_import_lookup()?;
    for (name, address) in context::symbols_for_code() {
        let variable = symbol(&name).cast::<*mut c_void>();
        if !variable.is_null() {
            // SAFETY: the ABI reserves these names for pointer variables that the loader sets.
            unsafe { variable.write(address) };
        }
    }
    let variable = symbol("__tvm_ffi__library_ctx").cast::<*mut c_void>();
    if !variable.is_null() {
        core::mem::forget(module.clone());
        // SAFETY: the ABI reserves the symbol for a pointer variable that the loader sets; the
        // module stays alive.
        unsafe { variable.write(module.context()) };
    }
    Ok(())
}

/// The handle that the code of a function expects from its callers.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    /// The code ignores its handle, so callers may call it directly.
    Unread,
    /// The code expects NULL: callers go through [`call_owned`].
    Null,
}

/// The data of a function whose code belongs to another owner: its entry point, and a reference
/// that keeps the code loaded.
struct OwnedCode {
    call: SafeCall,
    _owner: Arc<dyn Any + Send + Sync>,
}

#[inline]
unsafe extern "C" fn call_owned(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the handle is a function object created below; the arguments are passed on unchanged.
    unsafe {
        let function = embedded::closure_of::<OwnedCode>(this);
        (function.call)(core::ptr::null_mut(), args, num_args, result)
    }
}

/// Creates a function that keeps the owner of its code alive.
///
/// # Safety
/// `call` follows the ABI's calling convention, stays valid as long as the owner, and expects the
/// handle that `handle` specifies.
#[inline]
pub(super) unsafe fn owned_function(call: SafeCall, owner: Arc<dyn Any + Send + Sync>, handle: Handle) -> Function {
    let entry = match handle {
        Handle::Unread => call,
        Handle::Null => call_owned,
    };
    let function = embedded::new_function(entry, OwnedCode { call, _owner: owner });
    // SAFETY: a new function object; the handle takes ownership of its one reference.
    unsafe { Function::from_raw(function) }
}

/// Creates a function whose code is freed with its owner.
///
/// # Safety
/// `call` follows the ABI's calling convention and stays valid as long as the owner.
#[doc(hidden)]
#[inline]
pub unsafe fn function_of_code(call: SafeCall, owner: Arc<dyn Any + Send + Sync>) -> Function {
    // SAFETY: promised by the caller; NULL is a valid handle for all code.
    unsafe { owned_function(call, owner, Handle::Null) }
}
