//! The modules that are the contexts of libraries, through which a library's code finds its
//! imports.
//!
//! A library's code may read its context at any time and use it, so such a module is never freed.
//! It is reused when the library is loaded again and no other code refers to the module any more:
//! loading a library repeatedly keeps no more modules than were in use at the same time.

use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use crate::module::Module;

/// A module, and the library's variable that points to it.
struct Context {
    variable: usize,
    module: Module,
}

static CONTEXTS: Mutex<Vec<Context>> = Mutex::new(Vec::new());

/// Stores a module without imports as a library's context: an existing one that only the library
/// refers to, else a new one.
///
/// # Safety
/// `variable` is a pointer variable of a library that is never unloaded; `new` creates modules of
/// that library.
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
        // Unlocked before an import is released: its destructor may run any code.
        module.forget_imports();
    }
    module
}
