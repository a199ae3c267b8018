//! `libtvm_ffi.so` from Rust: the 50 C functions, exported over the implementation in
//! `kernpack::sys::embedded`, and the C++ symbols that C++ libraries with their own modules import.
//!
//! Their signatures and documentation are in one table, `for_each_function` of
//! `kernpack::sys::abi`, from which `include/kernpack/c_api.h` is also generated; a test reports
//! when it is out of date, and how to regenerate it. Install the library where a program looks for
//! the stock library. Once it is loaded, it serves the whole process.

pub mod modules;

use core::ffi::{c_char, c_int, c_void};

use kernpack::sys::abi::{
    DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLPackManagedTensorAllocator, DLTensor, SafeCall, TVMFFIAny,
    TVMFFIByteArray, TVMFFICustomAllocator, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObjectHandle, TVMFFIStreamHandle,
    TVMFFITypeAttrColumn, TVMFFITypeInfo, TVMFFITypeMetadata, TVMFFIVersion, for_each_function,
};
use kernpack::sys::embedded::FUNCTIONS;

/// Exports the functions of the table under their C names. Optional functions may be absent from
/// other tables, but not from ours.
macro_rules! export {
    (
        required { $($(#[doc = $doc:literal])+ $name:ident: $field:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)* }
        optional {
            $($(#[doc = $opt_doc:literal])+ $opt_name:ident: $opt_field:ident($($opt_arg:ident: $opt_type:ty),*)
                $(-> $opt_ret:ty)?;)*
        }
    ) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            /// Pointers are valid for what the function does with them; handles are live objects.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller upholds the function's own contract.
                unsafe { (FUNCTIONS.$field)($($arg),*) }
            }
        )*
        $(
            $(#[doc = $opt_doc])+
            ///
            /// # Safety
            /// Pointers are valid for what the function does with them; handles are live objects.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $opt_name($($opt_arg: $opt_type),*) $(-> $opt_ret)? {
                // SAFETY: our own table has all functions. The caller upholds the function's own
                // contract.
                unsafe { (FUNCTIONS.$opt_field.unwrap_unchecked())($($opt_arg),*) }
            }
        )*
    };
}

for_each_function!(export);

/// Runs when the library is loaded.
extern "C" fn on_load() {
    // A panic must not unwind into the dynamic linker.
    let _ = std::panic::catch_unwind(kernpack::sys::provider::serve_embedded);
}

/// Runs before the constructor of `kernpack`, which would join a program that exports the same
/// functions.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static ON_LOAD: extern "C" fn() = on_load;
