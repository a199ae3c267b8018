//! Ctrl+C: `kernpack::check_signals()` asks Python.

use core::ffi::{c_int, c_void};

use kernpack_core::embedded::{self, env};
use kernpack_core::provider;

use crate::exception;
use crate::interpreter::with_lock;

/// Tells the provider how signals are handled, if it is this artifact's own. Another one has its own frontend, or was told by its artifact.
pub(crate) fn register() {
    if !core::ptr::eq(provider::api(), embedded::table()) {
        return;
    }
    let functions: [(&[u8], *mut c_void); 3] = [
        (b"PyGILState_Ensure", ensure as *mut c_void),
        (b"PyGILState_Release", release as *mut c_void),
        (b"PyErr_CheckSignals", check as *mut c_void),
    ];
    for (name, function) in functions {
        // SAFETY: functions of the signatures that belong to the names.
        let known = unsafe { env::register_c_api(name, function) };
        debug_assert!(known.is_ok());
    }
}

/// Handles signals with the lock held. The exception of a handler becomes the raised error, which carries it: Rust code may call Python again before the error
/// arrives there.
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

/// `check` takes the lock itself, as the state of the thread's call asks for it.
unsafe extern "C" fn ensure() -> *mut c_void {
    core::ptr::null_mut()
}

unsafe extern "C" fn release(_: *mut c_void) {}
