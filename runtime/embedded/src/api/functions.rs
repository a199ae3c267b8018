//! Functions, and the table of global functions.

use core::ffi::{c_int, c_void};

use super::guard::{plain_status, raise, status};
use super::parameters::{checked, writable};
use crate::abi::{SafeCall, TVMFFIAny, TVMFFIByteArray, TVMFFIFunctionCell, TVMFFIMethodInfo, TVMFFIObjectHandle};
use crate::cells::failure::Failure;
use crate::cells::release::bytes_at;
use crate::cells::{ObjectCell, trampoline_function};
use crate::tables::function_table;

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn function_create(
    this: *mut c_void,
    safe_call: Option<SafeCall>,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    let run = || {
        let out = writable(out, "out")?;
        let Some(safe_call) = safe_call else {
            return Err(Failure::value("the argument `safe_call` is NULL"));
        };
        // SAFETY: see above.
        unsafe { out.write(trampoline_function(this, safe_call, deleter)) };
        Ok(())
    };
    plain_status("TVMFFIFunctionCreate", run())
}

pub(super) unsafe extern "C" fn function_call(
    func: TVMFFIObjectHandle,
    args: *mut TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> c_int {
    if func.is_null() {
        return no_function();
    }
    // Nothing is left to do after the call, and no register has to be saved: only a test and a jump
    // remain.
    // SAFETY: see above; every function begins with this cell and has an entry point.
    unsafe {
        let cell = &(*func.cast::<ObjectCell<TVMFFIFunctionCell>>()).body;
        cell.safe_call.unwrap_unchecked()(func.cast(), args, num_args, result)
    }
}

#[cold]
#[inline(never)]
extern "C" fn no_function() -> c_int {
    raise("TVMFFIFunctionCall", Failure::value("the argument `func` is NULL"));
    // Opaque to the compiler: otherwise the caller would materialize the constant itself after a
    // call, for which it needs a stack frame.
    core::hint::black_box(-1)
}

pub(super) unsafe extern "C" fn function_set_global(
    name: *const TVMFFIByteArray,
    func: TVMFFIObjectHandle,
    allow_override: c_int,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFIFunctionSetGlobal", || unsafe {
        function_table::set_global(bytes_at(name, "name")?, func, allow_override != 0)
    })
}

pub(super) unsafe extern "C" fn function_set_global_from_method_info(
    info: *const TVMFFIMethodInfo,
    allow_override: c_int,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFIFunctionSetGlobalFromMethodInfo", || unsafe {
        function_table::set_global_with_info(checked(info, "method_info")?, allow_override != 0)
    })
}

pub(super) unsafe extern "C" fn function_get_global(
    name: *const TVMFFIByteArray,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    status("TVMFFIFunctionGetGlobal", || {
        let out = writable(out, "out")?;
        // SAFETY: see above.
        unsafe { out.write(function_table::find_global(bytes_at(name, "name")?)) };
        Ok(())
    })
}
