//! C++ exceptions from Rust code: the way in which virtual functions of our modules report errors
//! to C++ callers.
//!
//! Rust cannot throw C++ exceptions, but it can let them pass. The stock library has a C++ function
//! that throws any error that a global function raises: `Module::LoadFromFile` calls the loader for
//! the file's extension. So the error is stored in a thread-local, a loader registered by this
//! artifact raises it, and the exception passes through the virtual function (`extern "C-unwind"`)
//! to its caller. If the implementation is not the stock one, there is no code that throws; and
//! exceptions do not pass through code that was built with `panic = "abort"`.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::sync::OnceLock;

use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::function::Function;
use crate::provider::{self, Origin};
use crate::value::{Any, Str};
use crate::{Error, IntoAny};

thread_local! {
    /// The error that is about to be thrown.
    static PENDING: Cell<Option<Error>> = const { Cell::new(None) };
}

/// `static Module Module::LoadFromFile(const String&)`, a C++ function; [`load_from_file`] calls
/// it.
type LoadFromFile = unsafe extern "C-unwind" fn();

/// Calls the C++ function. Exceptions pass through.
///
/// # Safety
/// `result` is writable, and owned if the function returns; `path` is a string value.
#[cfg(not(target_arch = "aarch64"))]
unsafe extern "C-unwind" fn load_from_file(
    result: *mut *mut TVMFFIObject,
    path: *const TVMFFIAny,
    function: LoadFromFile,
) {
    type Function = unsafe extern "C-unwind" fn(*mut *mut TVMFFIObject, *const TVMFFIAny) -> *mut c_void;
    // SAFETY: promised by the caller; the address of a result with a destructor is a hidden first
    // argument.
    unsafe { core::mem::transmute::<LoadFromFile, Function>(function)(result, path) };
}

/// Calls the C++ function. Exceptions pass through.
///
/// # Safety
/// `result` is writable, and owned if the function returns; `path` is a string value.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn load_from_file(
    result: *mut *mut TVMFFIObject,
    path: *const TVMFFIAny,
    function: LoadFromFile,
) {
    // A result with a destructor is written to the address in x8; see `super::result`.
    core::arch::naked_asm!("mov x8, x0", "mov x0, x1", "br x2")
}

/// The C++ function that throws, and a path whose extension selects this artifact's loader.
struct Thrower {
    load_from_file: LoadFromFile,
    path: Any,
}

/// Throws `error` as a C++ exception; returns it if no code in this process can throw it.
///
/// # Safety
/// The caller was called by C++ code that expects exceptions, through frames that let them pass.
pub(in crate::module) unsafe fn throw(error: Error) -> Error {
    static THROWER: OnceLock<Option<Thrower>> = OnceLock::new();
    if cfg!(panic = "abort") {
        // No exception passes through code that was built with this setting: it would end the
        // process.
        return error;
    }
    let Some(thrower) = THROWER.get_or_init(find_thrower) else { return error };
    PENDING.set(Some(error));
    let mut module = ptr::null_mut();
    // SAFETY: the symbol's mangled name fixes the type; the path is a string value. This throws,
    // because the loader fails.
    unsafe { load_from_file(&mut module, thrower.path.as_view().as_raw(), thrower.load_from_file) };
    PENDING.take().unwrap_or_else(|| Error::internal_error("an error was not thrown"))
}

fn find_thrower() -> Option<Thrower> {
    if provider::origin() != Origin::Process {
        return None;
    }
    let symbol = provider::process_symbol(c"_ZN3tvm3ffi6Module12LoadFromFileERKNS0_6StringE");
    if symbol.is_null() {
        return None;
    }
    // Each artifact has its own extension, because each has its own thread-locals.
    let extension = format!("kernpack_throw_{:x}", ptr::from_ref(&PENDING) as usize);
    let raise = Function::from_packed(|_path| {
        Err(PENDING.take().unwrap_or_else(|| Error::runtime_error("files of this kind cannot be loaded")))
    });
    Function::register_global(&format!("ffi.Module.load_from_file.{extension}"), &raise).ok()?;
    // SAFETY: the symbol's mangled name identifies this function.
    let load_from_file = unsafe { core::mem::transmute::<*mut c_void, LoadFromFile>(symbol) };
    Some(Thrower { load_from_file, path: Str::new(&format!("error.{extension}")).into_any() })
}
