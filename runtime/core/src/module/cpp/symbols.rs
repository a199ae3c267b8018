//! The C++ symbols that C++ libraries with their own modules import from libtvm_ffi: the base class
//! `tvm::ffi::ModuleObj`.
//!
//! A class that derives from it refers to its virtual functions `ImportModule` and `ClearImports`,
//! its vtable and its type info; code that uses a `tvm::ffi::Module` calls its four functions that
//! search the imports. Kernpack's `libtvm_ffi.so` and programs that call
//! `kernpack_build::export_abi()` export these under the names in [`NAMES`] (apache-tvm-ffi 0.1.15,
//! C++ ABI of GCC and Clang). No other part of the stock library's C++ side is provided.
//!
//! Errors cannot be thrown here, unless the stock library is in the process: without it, a function
//! returns an empty result, and the error is written to stderr.

use core::ffi::c_char;

use super::vtable::{This, or_throw};
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::embedded;
use crate::module::{Module, operations};
use crate::value::{AnyView, Bytes, FromAny, IntoAny};

pub use kernpack_formats::abi::cpp_names::NAMES;

pub use super::vtable::{vt_clear_imports as clear_imports, vt_import as import_module};

/// Returns the module of a C++ `this`.
///
/// # Safety
/// `this` is the C++ address of a live module.
unsafe fn module_of(this: This) -> Module {
    // SAFETY: promised by the caller; the header follows the vtable pointer.
    unsafe { Module::borrowed(this.byte_add(8).cast()) }
}

/// Reads a `const String&`.
///
/// # Safety
/// `name` points to a valid string value that lives for `'a`.
unsafe fn text<'a>(name: *const TVMFFIAny) -> &'a str {
    // SAFETY: promised by the caller; a view is transparent over the raw struct.
    let view: &'a AnyView<'a> = unsafe { &*name.cast() };
    <&str>::from_any(view).unwrap_or_default()
}

crate::__cpp_result! {
    /// `Optional<Function> ModuleObj::GetFunction(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// Called with the C++ calling convention; the caller releases the result.
    pub unsafe fn get_function(out: *mut *mut TVMFFIObject, this: This, name: *const TVMFFIAny, query_imports: u8) {
        // SAFETY: promised by the caller.
        unsafe { find_function(out, this, name, query_imports) }
    }

    /// `Optional<String> ModuleObj::GetFunctionDoc(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn get_function_doc(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny, query_imports: u8) {
        // SAFETY: promised by the caller.
        unsafe { text_of_function(out, this, name, query_imports, true) }
    }

    /// `Optional<String> ModuleObj::GetFunctionMetadata(const String& name, bool query_imports)`.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn get_function_metadata(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny, query_imports: u8) {
        // SAFETY: promised by the caller.
        unsafe { text_of_function(out, this, name, query_imports, false) }
    }

    /// `Optional<Function> ModuleObj::GetFunction(const String&)`, which C++ derived classes
    /// implement.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn base_function(out: *mut *mut TVMFFIObject, _this: This) {
        // SAFETY: promised by the caller.
        unsafe { out.write(core::ptr::null_mut()) };
    }

    /// Documentation and metadata of a class that does not have any.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn base_none(out: *mut TVMFFIAny, _this: This) {
        // SAFETY: promised by the caller.
        unsafe { out.write(TVMFFIAny::NONE) };
    }

    /// `Array<String> ModuleObj::GetWriteFormats() const`.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn base_formats(out: *mut *mut TVMFFIObject, _this: This) {
        // SAFETY: promised by the caller.
        unsafe { out.write(embedded::seq::new_array(Vec::new())) };
    }

    /// `Bytes ModuleObj::SaveToBytes() const`.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn base_bytes(out: *mut TVMFFIAny, _this: This) {
        // SAFETY: promised by the caller.
        unsafe { out.write(Bytes::new(&[]).into_any().into_raw()) };
    }

    /// `String ModuleObj::InspectSource(const String&) const`.
    ///
    /// # Safety
    /// As for [`get_function`].
    pub unsafe fn base_source(out: *mut TVMFFIAny, _this: This) {
        // SAFETY: promised by the caller.
        unsafe { out.write("".into_any().into_raw()) };
    }
}

/// `bool ModuleObj::ImplementsFunction(const String& name, bool query_imports)`.
///
/// # Safety
/// Called with the C++ calling convention.
pub unsafe extern "C-unwind" fn implements_function(this: This, name: *const TVMFFIAny, query_imports: u8) -> bool {
    // SAFETY: promised by the caller.
    unsafe { or_throw(|| operations::implements_function(&module_of(this), text(name), query_imports != 0)) }
        .unwrap_or_default()
}

/// Implements [`get_function`], callable from Rust code.
///
/// # Safety
/// `out` is writable, and the value written there is owned; `this` is the C++ address of a live
/// module, `name` a string value.
pub unsafe fn find_function(out: *mut *mut TVMFFIObject, this: This, name: *const TVMFFIAny, query_imports: u8) {
    // SAFETY: promised by the caller.
    unsafe {
        let found = or_throw(|| operations::get_function(&module_of(this), text(name), query_imports != 0)).flatten();
        out.write(found.map_or(core::ptr::null_mut(), |function| function.into_any().into_raw().payload.v_obj));
    }
}

/// Implements [`get_function_doc`] (`documentation`) and [`get_function_metadata`], callable from
/// Rust code.
///
/// # Safety
/// As for [`find_function`].
pub unsafe fn text_of_function(
    out: *mut TVMFFIAny,
    this: This,
    name: *const TVMFFIAny,
    query_imports: u8,
    documentation: bool,
) {
    // SAFETY: promised by the caller, who releases the result.
    unsafe {
        let found = or_throw(|| {
            operations::visit(&module_of(this), query_imports != 0, &mut |module| {
                operations::text(module, text(name), documentation)
            })
        });
        out.write(found.flatten().into_any().into_raw());
    }
}

/// `const char* ModuleObj::kind() const`, which C++ derived classes implement, so it is not called.
///
/// # Safety
/// No requirements.
pub unsafe extern "C" fn base_kind(_this: This) -> *const c_char {
    c"".as_ptr()
}

/// `int ModuleObj::GetPropertyMask() const`, and
/// `bool ModuleObj::ImplementsFunction(const String&)` of a class without functions.
///
/// # Safety
/// No requirements.
pub unsafe extern "C" fn base_zero(_this: This) -> i32 {
    0
}

/// `void ModuleObj::WriteToFile(const String&, const String&) const`.
///
/// # Safety
/// No requirements.
pub unsafe extern "C" fn base_write(_this: This) {}

/// Defines the symbols, with a prefix of their names that may be empty: the functions jump to those
/// of this file, the vtable contains the functions that a derived class overrides, and the type
/// info does not have bases (modules are not cast by their C++ types). In assembly, because rustc
/// exports every Rust symbol with a fixed name from every shared library.
#[doc(hidden)]
#[macro_export]
macro_rules! __cpp_symbols {
    ($prefix:literal, $jump:literal) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .text.", $prefix, "_ZN3tvm3ffi9ModuleObj,\"ax\",%progbits"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj12ImportModuleERKNS0_6ModuleE:"),
            concat!($jump, " {import}"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj12ClearImportsEv"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj12ClearImportsEv,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj12ClearImportsEv:"),
            concat!($jump, " {clear}"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb:"),
            concat!($jump, " {function}"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb:"),
            concat!($jump, " {implements}"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb:"),
            concat!($jump, " {doc}"),
            concat!(".globl ", $prefix, "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb"),
            concat!(".type ", $prefix, "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb,%function"),
            concat!($prefix, "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb:"),
            concat!($jump, " {metadata}"),
            ".popsection",
            concat!(".pushsection .data.rel.ro.", $prefix, "_ZTVN3tvm3ffi9ModuleObjE,\"aw\",%progbits"),
            ".balign 8",
            concat!(".globl ", $prefix, "_ZTVN3tvm3ffi9ModuleObjE"),
            concat!(".type ", $prefix, "_ZTVN3tvm3ffi9ModuleObjE,%object"),
            concat!($prefix, "_ZTVN3tvm3ffi9ModuleObjE:"),
            concat!(".quad 0, ", $prefix, "_ZTIN3tvm3ffi9ModuleObjE"),
            ".quad {base_kind}, {base_zero}, {base_function}, {base_zero}, {base_none}, {base_none}, {base_write}",
            ".quad {base_formats}, {base_bytes}, {base_source}, {import}, {clear}",
            concat!(".size ", $prefix, "_ZTVN3tvm3ffi9ModuleObjE, 112"),
            concat!(".globl ", $prefix, "_ZTIN3tvm3ffi9ModuleObjE"),
            concat!(".type ", $prefix, "_ZTIN3tvm3ffi9ModuleObjE,%object"),
            concat!($prefix, "_ZTIN3tvm3ffi9ModuleObjE:"),
            // As for every class without bases: the functions of the C++ runtime's type-info class
            // (if there is one), and the name.
            ".weak _ZTVN10__cxxabiv117__class_type_infoE",
            ".quad _ZTVN10__cxxabiv117__class_type_infoE + 16, 2f",
            concat!(".size ", $prefix, "_ZTIN3tvm3ffi9ModuleObjE, 16"),
            ".popsection",
            concat!(".pushsection .rodata.", $prefix, "_ZTSN3tvm3ffi9ModuleObjE,\"a\",%progbits"),
            "2:",
            ".asciz \"N3tvm3ffi9ModuleObjE\"",
            ".popsection",
            import = sym $crate::module::cpp::symbols::import_module,
            clear = sym $crate::module::cpp::symbols::clear_imports,
            function = sym $crate::module::cpp::symbols::get_function,
            implements = sym $crate::module::cpp::symbols::implements_function,
            doc = sym $crate::module::cpp::symbols::get_function_doc,
            metadata = sym $crate::module::cpp::symbols::get_function_metadata,
            base_kind = sym $crate::module::cpp::symbols::base_kind,
            base_zero = sym $crate::module::cpp::symbols::base_zero,
            base_function = sym $crate::module::cpp::symbols::base_function,
            base_none = sym $crate::module::cpp::symbols::base_none,
            base_write = sym $crate::module::cpp::symbols::base_write,
            base_formats = sym $crate::module::cpp::symbols::base_formats,
            base_bytes = sym $crate::module::cpp::symbols::base_bytes,
            base_source = sym $crate::module::cpp::symbols::base_source,
        );
    };
}
