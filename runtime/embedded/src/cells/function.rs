//! Function objects: an entry point and its state.

use core::ffi::c_void;

use crate::abi::{SafeCall, TVMFFIAny, TVMFFIFunctionCell, TVMFFIObject, type_index};

use super::object::{ObjectCell, new_object};

/// A function cell followed by its closure; `safe_call` receives the function object as its handle.
#[repr(C)]
struct FunctionBody<C> {
    cell: TVMFFIFunctionCell,
    closure: C,
}

/// Creates a function whose `safe_call` finds `closure` in the object that it receives; see
/// [`closure_of`].
pub fn new_function<C>(safe_call: SafeCall, closure: C) -> *mut TVMFFIObject {
    let cell = TVMFFIFunctionCell { safe_call: Some(safe_call), cpp_call: core::ptr::null_mut() };
    new_object(type_index::FUNCTION, FunctionBody { cell, closure })
}

/// The closure of a function made by [`new_function`] with the same `C`.
///
/// # Safety
/// `handle` is the argument that such a function's `safe_call` received; the object lives for `'a`.
#[inline]
pub unsafe fn closure_of<'a, C>(handle: *mut c_void) -> &'a C {
    // SAFETY: promised by the caller.
    unsafe { &(*handle.cast::<ObjectCell<FunctionBody<C>>>()).body.closure }
}

/// The context that `TVMFFIFunctionCreate` stores for a function.
struct Context {
    this: *mut c_void,
    safe_call: SafeCall,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: the creator of the function gave this deleter for this context; it is called
            // once.
            unsafe { deleter(self.this) }
        }
    }
}

unsafe extern "C" fn call_with_context(
    handle: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: this entry point is only installed by `trampoline_function`; the arguments are passed
    // on as they came.
    unsafe {
        let context = closure_of::<Context>(handle);
        (context.safe_call)(context.this, args, num_args, result)
    }
}

/// The semantics of `TVMFFIFunctionCreate`: with neither context nor deleter, `safe_call` itself is
/// the entry point (it receives the function object); otherwise it receives `this`, and
/// `deleter(this)` runs when the function dies.
pub fn trampoline_function(
    this: *mut c_void,
    safe_call: SafeCall,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> *mut TVMFFIObject {
    if this.is_null() && deleter.is_none() {
        return new_function(safe_call, ());
    }
    new_function(call_with_context, Context { this, safe_call, deleter })
}
