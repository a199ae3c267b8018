//! The C++ vtable of modules (abi.md section 12): ours, through which C++ uses modules written in
//! Rust, and those of other modules.

use core::ffi::{c_char, c_void};
use core::ptr;

use super::{error_relay, exception};
use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::function::Function;
use crate::module::Module;
use crate::module::implementation::ModuleImpl;
use crate::module::object::ModuleBody;
use crate::value::{AnyView, Bytes, FromAny, IntoAny};
use crate::{Error, Result, embedded};

/// The C++ object of a module: the address of its vtable pointer.
pub(in crate::module) type This = *mut c_void;

/// A virtual function whose result has a destructor: only C++ code and [`super::call::call_into`]
/// can call it.
type WritesResult = *const c_void;

/// The C++ vtable of `tvm::ffi::ModuleObj` in the Itanium ABI. C++ implementations may throw.
#[repr(C)]
pub(in crate::module) struct Vtable {
    offset_to_top: isize,
    type_info: *const c_void,
    /// The vtable pointer of an object points here.
    pub(in crate::module) kind: unsafe extern "C-unwind" fn(This) -> *const c_char,
    pub(in crate::module) property_mask: unsafe extern "C-unwind" fn(This) -> i32,
    /// `Optional<Function> GetFunction(const String& name)`.
    pub(in crate::module) function: WritesResult,
    pub(in crate::module) implements: unsafe extern "C-unwind" fn(This, *const TVMFFIAny) -> bool,
    /// `Optional<String> GetFunctionDoc(const String& name)`.
    pub(in crate::module) doc: WritesResult,
    /// `Optional<String> GetFunctionMetadata(const String& name)`.
    pub(in crate::module) metadata: WritesResult,
    pub(in crate::module) write_to_file: unsafe extern "C-unwind" fn(This, *const TVMFFIAny, *const TVMFFIAny),
    /// `Array<String> GetWriteFormats() const`.
    pub(in crate::module) write_formats: WritesResult,
    /// `Bytes SaveToBytes() const`.
    pub(in crate::module) save_to_bytes: WritesResult,
    /// `String InspectSource(const String& format) const`.
    pub(in crate::module) inspect_source: WritesResult,
    pub(in crate::module) import: unsafe extern "C-unwind" fn(This, *const *mut TVMFFIObject),
    pub(in crate::module) clear_imports: unsafe extern "C-unwind" fn(This),
}

// SAFETY: constant function pointers.
unsafe impl Sync for Vtable {}

/// The vtable of [`ModuleBody`]; its address distinguishes modules of this artifact from all
/// others.
pub(in crate::module) static VTABLE: Vtable = Vtable {
    offset_to_top: 0,
    type_info: ptr::null(),
    kind: vt_kind,
    property_mask: vt_property_mask,
    function: vt_function as WritesResult,
    implements: vt_implements,
    doc: vt_doc as WritesResult,
    metadata: vt_metadata as WritesResult,
    write_to_file: vt_write_to_file,
    write_formats: vt_write_formats as WritesResult,
    save_to_bytes: vt_save_to_bytes as WritesResult,
    inspect_source: vt_inspect_source as WritesResult,
    import: vt_import,
    clear_imports: vt_clear_imports,
};

/// Returns the implementation of a C++ `this`.
///
/// # Safety
/// `this` is the C++ address of a module of this artifact.
unsafe fn of<'a>(this: This) -> &'a dyn ModuleImpl {
    // SAFETY: promised by the caller.
    unsafe { &*body(this).implementation }
}

/// # Safety
/// As for [`of`].
unsafe fn body<'a>(this: This) -> &'a ModuleBody {
    // SAFETY: the header follows the vtable pointer, and the body follows the header.
    unsafe { embedded::body(this.byte_add(8).cast()) }
}

/// Reads a `const String&`.
///
/// # Safety
/// `text` points to a valid string value that lives for `'a`.
unsafe fn text<'a>(text: *const TVMFFIAny) -> &'a str {
    // SAFETY: promised by the caller; a view is transparent over the raw struct.
    let view: &'a AnyView<'a> = unsafe { &*text.cast() };
    <&str>::from_any(view).unwrap_or_default()
}

/// Runs the body of a virtual function. An error is passed to a Rust caller that waits for it;
/// otherwise it is thrown as a C++ exception; if no code can throw it, it is at least printed. In
/// the first and the last case the result is `None`.
///
/// # Safety
/// Called from a virtual function of a module, which lets exceptions pass.
pub(in crate::module) unsafe fn or_throw<T>(work: impl FnOnce() -> Result<T>) -> Option<T> {
    let error = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => error,
        Err(payload) => {
            embedded::discard_panic(payload);
            Error::internal_error("a function of the module panicked")
        }
    };
    let error = error_relay::tell(error)?;
    // SAFETY: promised by the caller.
    let error = unsafe { exception::throw(error) };
    embedded::notice::notice(format_args!("kernpack: {error}"));
    None
}

// Each function below is reached only through the vtable of a module created by `new_module`, so
// `this` is such a module, and the other pointers follow the C++ signature.

unsafe extern "C-unwind" fn vt_kind(this: This) -> *const c_char {
    // SAFETY: see above; the kind lives as long as the module.
    unsafe { body(this) }.kind.as_ptr()
}

unsafe extern "C-unwind" fn vt_property_mask(this: This) -> i32 {
    // SAFETY: see above.
    unsafe { or_throw(|| Ok(of(this).properties().bits())) }.unwrap_or_default()
}

/// Returns the module's own function, which is cached.
///
/// # Safety
/// As for [`of`].
unsafe fn own_function(this: This, name: &str) -> Result<Option<Function>> {
    // SAFETY: promised by the caller.
    unsafe { Module::borrowed(this.byte_add(8).cast()) }.own_function(name)
}

unsafe extern "C-unwind" fn vt_implements(this: This, name: *const TVMFFIAny) -> bool {
    // SAFETY: see above.
    unsafe { or_throw(|| of(this).implements_function(text(name))).unwrap_or_default() }
}

unsafe extern "C-unwind" fn vt_write_to_file(this: This, path: *const TVMFFIAny, format: *const TVMFFIAny) {
    // SAFETY: see above.
    unsafe { or_throw(|| of(this).write_to_file(text(path), text(format))) };
}

crate::__cpp_result! {
    unsafe fn vt_function(out: *mut *mut TVMFFIObject, this: This, name: *const TVMFFIAny) {
        // SAFETY: see above; the caller releases the result.
        unsafe {
            let function = or_throw(|| own_function(this, text(name))).flatten();
            out.write(function.map_or(ptr::null_mut(), |function| function.into_any().into_raw().payload.v_obj));
        }
    }

    unsafe fn vt_doc(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny) {
        // SAFETY: see above; the caller releases the result.
        unsafe { out.write(or_throw(|| of(this).function_doc(text(name))).flatten().into_any().into_raw()) };
    }

    unsafe fn vt_metadata(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny) {
        // SAFETY: see above; the caller releases the result.
        unsafe { out.write(or_throw(|| of(this).function_metadata(text(name))).flatten().into_any().into_raw()) };
    }

    unsafe fn vt_write_formats(out: *mut *mut TVMFFIObject, this: This) {
        // SAFETY: see above; the caller releases the result.
        unsafe {
            let formats = or_throw(|| Ok(of(this).write_formats())).unwrap_or_default();
            out.write(formats.into_any().into_raw().payload.v_obj);
        };
    }

    unsafe fn vt_save_to_bytes(out: *mut TVMFFIAny, this: This) {
        // SAFETY: see above; the caller releases the result.
        unsafe {
            let bytes = or_throw(|| of(this).save_to_bytes()).unwrap_or_else(|| Bytes::new(&[]));
            out.write(bytes.into_any().into_raw());
        }
    }

    unsafe fn vt_inspect_source(out: *mut TVMFFIAny, this: This, format: *const TVMFFIAny) {
        // SAFETY: see above; the caller releases the result.
        unsafe {
            let source = or_throw(|| of(this).inspect_source(text(format))).unwrap_or_default();
            out.write(source.into_any().into_raw());
        }
    }
}

/// `void ModuleObj::ImportModule(const Module& other)`, for every module.
///
/// # Safety
/// Called with the C++ calling convention.
pub unsafe extern "C-unwind" fn vt_import(this: This, other: *const *mut TVMFFIObject) {
    // SAFETY: see above; `other` is a `const Module&`, one pointer to a live module.
    unsafe {
        let module = Module::borrowed(this.byte_add(8).cast());
        let other = Module::borrowed(*other);
        or_throw(|| module.import_locally(&other));
    }
}

/// `void ModuleObj::ClearImports()`, for every module.
///
/// # Safety
/// Called with the C++ calling convention.
pub unsafe extern "C-unwind" fn vt_clear_imports(this: This) {
    // SAFETY: see above.
    unsafe { Module::borrowed(this.byte_add(8).cast()) }.clear_imports_locally();
}

/// Returns the vtable and the C++ address of any module, including modules written in C++.
///
/// # Safety
/// `object` is a live module.
pub(in crate::module) unsafe fn vtable_of<'a>(object: *mut TVMFFIObject) -> (&'a Vtable, This) {
    // SAFETY: every module's vtable pointer is 8 bytes before its header and points to the `kind`
    // slot; the two words before that slot are part of every Itanium vtable.
    unsafe {
        let this = object.byte_sub(8);
        let slots = *this.cast::<*const u8>();
        (&*slots.sub(core::mem::offset_of!(Vtable, kind)).cast::<Vtable>(), this.cast())
    }
}
