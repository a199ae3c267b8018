//! The 50 C functions, and the four of [`workspace`] and [`thread_pool`], for a Rust program that
//! exports them to the libraries that it loads with `kernpack_build::export_abi()`.
//!
//! Libraries built by C++ compilers and Apache TVM call `TVMFFI...` functions by name (and, where
//! TVM generated C, `TVMBackend...`). Only an implementation may define symbols with these names,
//! so that Kernpack libraries do not interfere with each other. Here they are named
//! `__kernpack_host_TVMFFI...`: the linker omits them, unless a program's build script gives them
//! their C names and exports them. They are defined in assembly, because rustc exports every Rust
//! function with a fixed name from every shared library.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::{
    ApiTable, DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, SafeCall,
    TVMFFIAny, TVMFFIByteArray, TVMFFICustomAllocator, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObjectHandle,
    TVMFFIStreamHandle, TVMFFITypeAttrColumn, TVMFFITypeInfo, TVMFFITypeMetadata, TVMFFIVersion, for_each_function,
};
use crate::provider;
#[cfg(target_os = "linux")]
use crate::{device::workspace, thread_pool};

macro_rules! symbol {
    ($name:expr, $function:path) => {
        crate::__linker_symbol!(concat!("__kernpack_host_", $name), $function);
    };
}

macro_rules! functions {
    (
        required { $($(#[doc = $doc:literal])+ $name:ident : $field:ident ( $($arg:ident : $type:ty),* ) $(-> $ret:ty)?;)* }
        optional {
            $($(#[doc = $opt_doc:literal])+ $opt_name:ident : $opt_field:ident ( $($opt_arg:ident : $opt_type:ty),* )
                $(-> $opt_ret:ty)?;)*
        }
    ) => {
        $(
            unsafe extern "C" fn $field($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller makes the promises that the function requires.
                unsafe { (table().$field)($($arg),*) }
            }
            symbol!(stringify!($name), $field);
        )*
        $(
            unsafe extern "C" fn $opt_field($($opt_arg: $opt_type),*) $(-> $opt_ret)? {
                let Some(function) = table().$opt_field else { missing(stringify!($opt_name)) };
                // SAFETY: the caller makes the promises that the function requires.
                unsafe { function($($opt_arg),*) }
            }
            symbol!(stringify!($opt_name), $opt_field);
        )*
    };
}
for_each_function!(functions);

/// Gives a library of this project the program's table in one call, not function by function:
/// `__kernpack_exported_api_v1`.
extern "C" fn exported_table() -> *const ApiTable {
    provider::api()
}
symbol!("table", exported_table);

symbol!("TVMBackendAllocWorkspace", workspace::alloc_workspace);
symbol!("TVMBackendFreeWorkspace", workspace::free_workspace);
symbol!("TVMBackendParallelLaunch", thread_pool::parallel_launch);
symbol!("TVMBackendParallelBarrier", thread_pool::parallel_barrier);

// The base class of modules, for C++ libraries with their own modules.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
crate::__cpp_symbols!("__kernpack_host_", "jmp");
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
crate::__cpp_symbols!("__kernpack_host_", "b");

#[inline]
fn table() -> &'static ApiTable {
    // SAFETY: tables live forever.
    unsafe { provider::bound().as_ref() }.unwrap_or_else(provider::table_for_libraries)
}

/// Aborts for a function that no library provides, as the dynamic linker does.
#[cold]
fn missing(name: &str) -> ! {
    crate::embedded::notice::notice(format_args!(
        "kernpack: the libtvm_ffi in this process is too old for a library: it has no {name}"
    ));
    std::process::abort()
}
