//! Ctrl+C: `kernpack::check_signals()` calls Python.

use core::ffi::{CStr, c_int, c_void};

use kernpack_core::{Error, provider};

use super::capi::Py;
use super::interpreter::with_lock;
use super::object::PyResult;
use super::{exception, tvm_ffi};

/// Registers the handling of signals with the provider, unless the package tvm_ffi is imported,
/// which has registered its own; another artifact may also have done it, in the same way. If the
/// package is imported later, it registers its own then.
pub(crate) fn register(py: Py) -> PyResult<()> {
    if tvm_ffi::is_imported(py)? {
        return Ok(());
    }
    let functions: [(&CStr, *mut c_void); 3] = [
        (c"PyGILState_Ensure", ensure as *mut c_void),
        (c"PyGILState_Release", release as *mut c_void),
        (c"PyErr_CheckSignals", check as *mut c_void),
    ];
    for (name, function) in functions {
        // SAFETY: functions of the signatures that belong to the names.
        let status = unsafe { (provider::api().env_register_c_api)(name.as_ptr(), function) };
        Error::check(status).map_err(|error| exception::raise(py, &error))?;
    }
    Ok(())
}

/// Handles signals with the lock held. The exception of a handler becomes the raised error, which
/// carries it: Rust code may call Python again before the error gets there.
unsafe extern "C" fn check() -> c_int {
    let outcome = with_lock(|py| {
        // SAFETY: the lock is held.
        match unsafe { py.PyErr_CheckSignals() } {
            0 => 0,
            _ => {
                exception::take(py).raise();
                -1
            }
        }
    });
    // Without an interpreter there is no handler.
    outcome.unwrap_or(0)
}

/// `check` takes the lock itself, depending on the state of the thread's call.
unsafe extern "C" fn ensure() -> *mut c_void {
    core::ptr::null_mut()
}

unsafe extern "C" fn release(_: *mut c_void) {}
