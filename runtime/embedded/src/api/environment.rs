//! The environment of compiled code: handles, streams, allocators, signals, symbols.

use core::ffi::{c_char, c_int, c_void};

use super::guard::{guarded, status};
use super::parameters::{c_text, writable};
use crate::abi::{DLPackManagedTensorAllocator, DLTensor, TVMFFIObjectHandle, TVMFFIStreamHandle};
use crate::cells::failure::Failure;
use crate::env;
use crate::env::{Allocation, handle_once, module_env};

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn handle_init_once(
    addr: *mut *mut c_void,
    init: Option<unsafe extern "C" fn(*mut *mut c_void) -> c_int>,
) -> c_int {
    // SAFETY: see above.
    if !addr.is_null() && unsafe { handle_once::is_initialized(addr) } {
        return 0;
    }
    guarded("TVMFFIHandleInitOnce", -1, || {
        let addr = writable(addr, "handle_addr")?;
        let Some(init) = init else { return Err(Failure::value("the argument `init_func` is NULL")) };
        // SAFETY: see above.
        unsafe { handle_once::init_once(addr, init) }
    })
}

pub(super) unsafe extern "C" fn handle_deinit_once(
    addr: *mut *mut c_void,
    deinit: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
) -> c_int {
    guarded("TVMFFIHandleDeinitOnce", -1, || {
        let addr = writable(addr, "handle_addr")?;
        let Some(deinit) = deinit else { return Err(Failure::value("the argument `deinit_func` is NULL")) };
        // SAFETY: see above.
        Ok(unsafe { handle_once::deinit_once(addr, deinit) })
    })
}

pub(super) unsafe extern "C" fn env_set_stream(
    device_type: i32,
    device_id: i32,
    stream: TVMFFIStreamHandle,
    out_previous: *mut TVMFFIStreamHandle,
) -> c_int {
    let previous = env::set_stream(device_type, device_id, stream);
    if !out_previous.is_null() {
        // SAFETY: see above.
        unsafe { out_previous.write(previous) };
    }
    0
}

pub(super) unsafe extern "C" fn env_get_stream(device_type: i32, device_id: i32) -> TVMFFIStreamHandle {
    env::stream(device_type, device_id)
}

pub(super) unsafe extern "C" fn env_set_tensor_allocator(
    allocator: Option<DLPackManagedTensorAllocator>,
    write_to_global: c_int,
    out_previous: *mut Option<DLPackManagedTensorAllocator>,
) -> c_int {
    status("TVMFFIEnvSetDLPackManagedTensorAllocator", || {
        let previous = env::set_tensor_allocator(allocator, write_to_global != 0);
        if !out_previous.is_null() {
            // SAFETY: see above.
            unsafe { out_previous.write(previous) };
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn env_get_tensor_allocator() -> Option<DLPackManagedTensorAllocator> {
    env::tensor_allocator()
}

pub(super) unsafe extern "C" fn env_tensor_alloc(prototype: *mut DLTensor, out: *mut TVMFFIObjectHandle) -> c_int {
    guarded("TVMFFIEnvTensorAlloc", -1, || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe {
            match env::allocate_tensor(writable(prototype, "prototype")?)? {
                Allocation::Tensor(tensor) => {
                    out.write(tensor);
                    Ok(0)
                }
                Allocation::Failed(code) => Ok(code),
            }
        }
    })
}

pub(super) unsafe extern "C" fn env_check_signals() -> c_int {
    if !env::has_signals() {
        return 0;
    }
    let went_on = guarded("TVMFFIEnvCheckSignals", false, env::check_signals);
    if went_on { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn env_register_c_api(name: *const c_char, symbol: *mut c_void) -> c_int {
    // SAFETY: see above.
    status("TVMFFIEnvRegisterCAPI", || unsafe { env::register_c_api(c_text(name, "name")?, symbol) })
}

pub(super) unsafe extern "C" fn env_mod_lookup_from_imports(
    library_ctx: TVMFFIObjectHandle,
    name: *const c_char,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    status("TVMFFIEnvModLookupFromImports", || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(module_env::lookup_from_imports(library_ctx, c_text(name, "func_name")?)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn env_mod_register_context_symbol(name: *const c_char, symbol: *mut c_void) -> c_int {
    status("TVMFFIEnvModRegisterContextSymbol", || {
        // SAFETY: see above.
        module_env::register_context_symbol(unsafe { c_text(name, "name")? }, symbol);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn env_mod_register_system_lib_symbol(name: *const c_char, symbol: *mut c_void) -> c_int {
    status("TVMFFIEnvModRegisterSystemLibSymbol", || {
        // SAFETY: see above.
        module_env::register_system_lib_symbol(unsafe { c_text(name, "name")? }, symbol);
        Ok(())
    })
}
