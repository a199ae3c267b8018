//! The base class of modules, which C++ libraries with their own modules import by C++ names; see
//! `kernpack::module::cpp::symbols`. rustc exports only symbols that are written in Rust, so
//! nothing here is assembly.

use core::ffi::{CStr, c_void};
use core::ptr;

use kernpack::module::cpp::symbols as cpp_symbols;
use kernpack::sys::abi::{TVMFFIAny, TVMFFIObject};

/// `void ModuleObj::ImportModule(const Module& other)`.
///
/// # Safety
/// Called as C++ calls it.
#[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE")]
pub unsafe extern "C-unwind" fn import_module(this: *mut c_void, other: *const *mut TVMFFIObject) {
    // SAFETY: promised by the caller.
    unsafe { cpp_symbols::import_module(this, other) }
}

/// `void ModuleObj::ClearImports()`.
///
/// # Safety
/// Called as C++ calls it.
#[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj12ClearImportsEv")]
pub unsafe extern "C-unwind" fn clear_imports(this: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { cpp_symbols::clear_imports(this) }
}

kernpack::__private_v0_1::cpp_result! {
    /// `Optional<Function> ModuleObj::GetFunction(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// Called as C++ calls it.
    #[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb")]
    pub unsafe fn get_function(
        out: *mut *mut TVMFFIObject,
        this: *mut c_void,
        name: *const TVMFFIAny,
        query_imports: u8,
    ) {
        // SAFETY: promised by the caller.
        unsafe { cpp_symbols::find_function(out, this, name, query_imports) }
    }

    /// `Optional<String> ModuleObj::GetFunctionDoc(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// Called as C++ calls it.
    #[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb")]
    pub unsafe fn get_function_doc(
        out: *mut TVMFFIAny,
        this: *mut c_void,
        name: *const TVMFFIAny,
        query_imports: u8,
    ) {
        // SAFETY: promised by the caller.
        unsafe { cpp_symbols::text_of_function(out, this, name, query_imports, true) }
    }

    /// `Optional<String> ModuleObj::GetFunctionMetadata(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// Called as C++ calls it.
    #[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb")]
    pub unsafe fn get_function_metadata(
        out: *mut TVMFFIAny,
        this: *mut c_void,
        name: *const TVMFFIAny,
        query_imports: u8,
    ) {
        // SAFETY: promised by the caller.
        unsafe { cpp_symbols::text_of_function(out, this, name, query_imports, false) }
    }
}

/// `bool ModuleObj::ImplementsFunction(const String& name, bool query_imports)`.
///
/// # Safety
/// Called as C++ calls it.
#[unsafe(export_name = "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb")]
pub unsafe extern "C-unwind" fn implements_function(
    this: *mut c_void,
    name: *const TVMFFIAny,
    query_imports: u8,
) -> bool {
    // SAFETY: promised by the caller.
    unsafe { cpp_symbols::implements_function(this, name, query_imports) }
}

/// Constant words: addresses.
#[repr(transparent)]
pub struct Table<const N: usize>([*const c_void; N]);

// SAFETY: the addresses are constants.
unsafe impl<const N: usize> Sync for Table<N> {}

/// The `type_info` of the class: without the functions of the C++ runtime's class of types, which
/// is not linked, and with the name. Modules are not cast by their C++ types.
#[unsafe(export_name = "_ZTIN3tvm3ffi9ModuleObjE")]
pub static MODULE_TYPE: Table<2> = Table([ptr::null(), NAME.as_ptr().cast()]);

const NAME: &CStr = c"N3tvm3ffi9ModuleObjE";

/// The table of virtual functions, which derived classes override.
#[unsafe(export_name = "_ZTVN3tvm3ffi9ModuleObjE")]
pub static MODULE_FUNCTIONS: Table<14> = Table([
    ptr::null(),
    (&raw const MODULE_TYPE).cast(),
    cpp_symbols::base_kind as *const c_void,
    cpp_symbols::base_zero as *const c_void,
    cpp_symbols::base_function as *const c_void,
    cpp_symbols::base_zero as *const c_void,
    cpp_symbols::base_none as *const c_void,
    cpp_symbols::base_none as *const c_void,
    cpp_symbols::base_write as *const c_void,
    cpp_symbols::base_formats as *const c_void,
    cpp_symbols::base_bytes as *const c_void,
    cpp_symbols::base_source as *const c_void,
    import_module as *const c_void,
    clear_imports as *const c_void,
]);
