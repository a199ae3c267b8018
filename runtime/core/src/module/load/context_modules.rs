//! The modules that libraries have as their context: where a library's code finds its imports.
//!
//! A library's code may read its context at any time, and use what it read, so such a module is never freed. It serves again when the
//! library is loaded anew and no other code has it any more: loading a library over and over keeps no more of them than were in
//! use at once.

use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use crate::module::Module;

/// A module, and the library's variable that it was written to.
struct Context {
    variable: usize,
    module: Module,
}

static CONTEXTS: Mutex<Vec<Context>> = Mutex::new(Vec::new());

/// Writes a module without imports into a library's context: one that only the library knows, else a new one.
///
/// # Safety
/// `variable` is a pointer variable of a library that is never unloaded; `new` makes modules of that library.
#[inline]
pub(in crate::module) unsafe fn module_of_context(variable: *mut *mut c_void, new: impl FnOnce() -> Module) -> Module {
    let (module, serves_again) = {
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |context: &&Context| context.variable == variable.addr() && context.module.is_only_reference();
        let idle = contexts.iter().find(is_idle).map(|context| context.module.clone());
        let serves_again = idle.is_some();
        let module = idle.unwrap_or_else(new);
        if !serves_again {
            contexts.push(Context { variable: variable.addr(), module: module.clone() });
        }
        // SAFETY: promised by the caller.
        unsafe { variable.write(module.context()) };
        (module, serves_again)
    };
    if serves_again {
        // Unlocked before an import goes: what it does then is its own business.
        module.forget_imports();
    }
    module
}
