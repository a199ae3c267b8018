//! Module objects made in Rust, usable by C++ through the vtable that the ABI fixes (abi.md section 12).

use core::ffi::{c_char, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::OnceLock;

use super::function_cache::FunctionCache;
use super::{Module, across, cpp_exception};
use crate::abi::{TVMFFIAny, TVMFFIModuleCell, TVMFFIObject, type_index};
use crate::function::Function;
use crate::value::{AnyView, Bytes, FromAny, IntoAny, Str};
use crate::{Error, Result, embedded};

/// What can be done with a module: bits of its property mask.
///
/// ```
/// use kernpack::module::ModuleProperties;
/// let both = ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE;
/// assert!(both.contains(ModuleProperties::RUNNABLE));
/// assert_eq!(both.bits(), 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModuleProperties(i32);

impl ModuleProperties {
    /// It can be serialized to bytes, which its loader (`ffi.Module.load_from_bytes.<kind>`) restores.
    pub const BINARY_SERIALIZABLE: Self = Self(1);
    /// Its functions can be called.
    pub const RUNNABLE: Self = Self(2);
    /// It can be written as source or object code that becomes a part of an exported library.
    pub const COMPILATION_EXPORTABLE: Self = Self(4);

    /// The properties with these bits; unknown ones are kept.
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The bits, as the ABI has them.
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for ModuleProperties {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A kind of module: implement it for a type of your own, and make modules of it with [`Module::new`].
///
/// Every language can use such a module; C++ code that holds it as a `tvm::ffi::Module` calls these functions through its
/// virtual functions. Where an error can not be thrown there (no stock libtvm_ffi in the process, or a build with
/// `panic = "abort"`), it is written to stderr.
///
/// A kind that is to travel inside libraries has a loader: a global function from its bytes to a module. Nothing else lists the
/// kind.
///
/// ```
/// use kernpack::module::{ModuleImpl, ModuleProperties};
/// use kernpack::{Bytes, Function, Module, Result, packed_func};
///
/// /// Multiplies by a constant.
/// struct Scale {
///     factor: i64,
/// }
///
/// impl ModuleImpl for Scale {
///     fn kind(&self) -> &str {
///         "docs.scale"
///     }
///
///     fn properties(&self) -> ModuleProperties {
///         ModuleProperties::RUNNABLE | ModuleProperties::BINARY_SERIALIZABLE
///     }
///
///     fn get_function(&self, name: &str) -> Result<Option<Function>> {
///         let factor = self.factor;
///         Ok((name == "scale").then(|| Function::from_fn(move |value: i64| value * factor)))
///     }
///
///     fn save_to_bytes(&self) -> Result<Bytes> {
///         Ok(Bytes::from(self.factor.to_le_bytes().to_vec()))
///     }
/// }
///
/// /// Restores a module of the kind `docs.scale`.
/// #[packed_func(name = "ffi.Module.load_from_bytes.docs.scale")]
/// fn load_scale(bytes: Bytes) -> Result<Module> {
///     let factor = bytes.first_chunk().ok_or_else(|| kernpack::Error::value_error("a factor has 8 bytes"))?;
///     Ok(Module::new(Scale { factor: i64::from_le_bytes(*factor) }))
/// }
///
/// let module = Module::new(Scale { factor: 3 });
/// assert_eq!(module.function("scale")?.call_as::<i64>((14,))?, 42);
/// assert_eq!(module.downcast_ref::<Scale>().map(|scale| scale.factor), Some(3));
/// # Ok::<(), kernpack::Error>(())
/// ```
pub trait ModuleImpl: core::any::Any + Send + Sync {
    /// Name of the kind, which also names its loader: `ffi.Module.load_from_bytes.<kind>`. Asked once, when the module is made.
    fn kind(&self) -> &str;

    /// What can be done with the module.
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::RUNNABLE
    }

    /// The module's own function of this name; `None` when it has none.
    ///
    /// Imports are not this function's business: [`Module::get_function`] searches them.
    ///
    /// # Errors
    /// Whatever keeps a function that is there from being used.
    fn get_function(&self, name: &str) -> Result<Option<Function>>;

    /// Whether the module has a function of this name.
    ///
    /// # Errors
    /// As for [`ModuleImpl::get_function`].
    fn implements_function(&self, name: &str) -> Result<bool> {
        Ok(self.get_function(name)?.is_some())
    }

    /// Whether a name always gives the same function, so that a module remembers what it has found. A kind whose functions
    /// change says `false`, and is asked each time.
    fn has_fixed_functions(&self) -> bool {
        true
    }

    /// JSON metadata of a function: an object with the member `type_schema`.
    ///
    /// # Errors
    /// Whatever keeps the metadata from being read.
    fn function_metadata(&self, _name: &str) -> Result<Option<Str>> {
        Ok(None)
    }

    /// Documentation of a function.
    ///
    /// # Errors
    /// Whatever keeps the documentation from being read.
    fn function_doc(&self, _name: &str) -> Result<Option<Str>> {
        Ok(None)
    }

    /// Names of the functions, as far as they are known, for lists and hints.
    fn function_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The serialized module, without its imports: what its loader gets.
    ///
    /// # Errors
    /// RuntimeError unless the kind is serializable.
    fn save_to_bytes(&self) -> Result<Bytes> {
        Err(crate::error!(RuntimeError, "Module[{}] does not support SaveToBytes", self.kind()))
    }

    /// Writes the module to a file in one of its formats.
    ///
    /// # Errors
    /// RuntimeError for a format that the kind does not have; OSError when the file can not be written.
    fn write_to_file(&self, _path: &str, format: &str) -> Result<()> {
        let formats = self.write_formats();
        if formats.is_empty() {
            return Err(crate::error!(RuntimeError, "Module[{}] does not support WriteToFile", self.kind()));
        }
        Err(crate::error!(
            RuntimeError,
            "a module of kind '{}' can not be written as '{format}', only as {}",
            self.kind(),
            formats.join(", ")
        ))
    }

    /// Formats that [`ModuleImpl::write_to_file`] knows.
    fn write_formats(&self) -> Vec<String> {
        Vec::new()
    }

    /// Source code in a format, empty when there is none. An empty `format` asks for the one that reads best.
    ///
    /// # Errors
    /// Whatever keeps the source from being read.
    fn inspect_source(&self, _format: &str) -> Result<String> {
        Ok(String::new())
    }
}

/// Body of a module object: the ABI's cell, then ours.
#[repr(C)]
pub(super) struct ModuleBody {
    cell: TVMFFIModuleCell,
    kind: CString,
    cache: FunctionCache,
    implementation: Box<dyn ModuleImpl>,
}

// SAFETY: the two handles are references that the body owns; changes to the import tree are the caller's to order.
unsafe impl Send for ModuleBody {}
// SAFETY: as above.
unsafe impl Sync for ModuleBody {}

impl Drop for ModuleBody {
    fn drop(&mut self) {
        for handle in [self.cell.imports, self.cell.import_lookup_cache] {
            if !handle.is_null() {
                // SAFETY: the cell owns both references, whoever replaced them meanwhile.
                unsafe { embedded::dec_ref(handle) };
            }
        }
    }
}

/// A new reference to the array that all modules without imports share. An import replaces the array.
fn no_imports() -> *mut TVMFFIObject {
    static EMPTY: OnceLock<usize> = OnceLock::new();
    shared(&EMPTY, || embedded::seq::new_array(Vec::new()))
}

/// A new reference to the map that all modules share in whose imports nothing was found yet. Whoever notes something there
/// makes a map of the module's own first.
pub(super) fn nothing_found() -> *mut TVMFFIObject {
    shared(&NOTHING_FOUND, || embedded::map::new_map(Vec::new()).unwrap_or(ptr::null_mut()))
}

static NOTHING_FOUND: OnceLock<usize> = OnceLock::new();

/// Whether this is the map that modules share.
pub(super) fn is_nothing_found(map: *mut TVMFFIObject) -> bool {
    NOTHING_FOUND.get() == Some(&map.addr())
}

/// A new reference to an object that is made once and never freed.
fn shared(place: &OnceLock<usize>, new: fn() -> *mut TVMFFIObject) -> *mut TVMFFIObject {
    let object: *mut TVMFFIObject = ptr::with_exposed_provenance_mut(*place.get_or_init(|| new().expose_provenance()));
    if !object.is_null() {
        // SAFETY: the static owns a reference for ever.
        unsafe { embedded::inc_ref(object) };
    }
    object
}

/// Creates a module object.
pub(super) fn new_module(implementation: impl ModuleImpl) -> Module {
    let cell = TVMFFIModuleCell { imports: no_imports(), import_lookup_cache: nothing_found() };
    // A name ends at its first NUL byte for C++, so for everyone.
    let kind = implementation.kind().split('\0').next().unwrap_or_default();
    let kind = CString::new(kind).unwrap_or_default();
    let body = ModuleBody { cell, kind, cache: FunctionCache::new(), implementation: Box::new(implementation) };
    let vtable = (&raw const VTABLE.kind).cast::<c_void>();
    // SAFETY: the vtable is a static with the slots of the C++ class; a new module object's one reference goes to the handle.
    unsafe { Module::from_object(embedded::new_polymorphic_object(type_index::MODULE, vtable, body)) }
}

/// The implementation of a module that was made by [`new_module`] in this artifact; `None` for all others.
///
/// # Safety
/// `object` is a live module.
pub(super) unsafe fn implementation<'a>(object: *mut TVMFFIObject) -> Option<&'a dyn ModuleImpl> {
    // SAFETY: promised by the caller.
    unsafe { own_body(object) }.map(|body| &*body.implementation)
}

/// What a module of this artifact remembers of its functions; `None` for all others.
///
/// # Safety
/// `object` is a live module.
pub(super) unsafe fn function_cache<'a>(object: *mut TVMFFIObject) -> Option<&'a FunctionCache> {
    // SAFETY: promised by the caller.
    unsafe { own_body(object) }.map(|body| &body.cache)
}

/// # Safety
/// `object` is a live module.
unsafe fn own_body<'a>(object: *mut TVMFFIObject) -> Option<&'a ModuleBody> {
    // SAFETY: every module has a vtable pointer 8 bytes before its header; ours marks the modules whose body is ours.
    unsafe {
        let vtable = *object.cast::<*const c_void>().sub(1);
        if !ptr::eq(vtable, (&raw const VTABLE.kind).cast()) {
            return None;
        }
        Some(embedded::body::<ModuleBody>(object))
    }
}

/// The C++ object of a module: where its vtable pointer is.
pub(super) type This = *mut c_void;

/// The C++ vtable of `tvm::ffi::ModuleObj` in the Itanium ABI. Results with a destructor are written through a hidden first
/// pointer, which is returned. C++ implementations may throw.
#[repr(C)]
pub(super) struct Vtable {
    offset_to_top: isize,
    type_info: *const c_void,
    /// The vtable pointer of an object points here.
    pub(super) kind: unsafe extern "C-unwind" fn(This) -> *const c_char,
    pub(super) property_mask: unsafe extern "C-unwind" fn(This) -> i32,
    pub(super) function: unsafe extern "C-unwind" fn(*mut *mut TVMFFIObject, This, *const TVMFFIAny) -> *mut c_void,
    pub(super) implements: unsafe extern "C-unwind" fn(This, *const TVMFFIAny) -> bool,
    pub(super) doc: unsafe extern "C-unwind" fn(*mut TVMFFIAny, This, *const TVMFFIAny) -> *mut c_void,
    pub(super) metadata: unsafe extern "C-unwind" fn(*mut TVMFFIAny, This, *const TVMFFIAny) -> *mut c_void,
    pub(super) write_to_file: unsafe extern "C-unwind" fn(This, *const TVMFFIAny, *const TVMFFIAny),
    pub(super) write_formats: unsafe extern "C-unwind" fn(*mut *mut TVMFFIObject, This) -> *mut c_void,
    pub(super) save_to_bytes: unsafe extern "C-unwind" fn(*mut TVMFFIAny, This) -> *mut c_void,
    pub(super) inspect_source: unsafe extern "C-unwind" fn(*mut TVMFFIAny, This, *const TVMFFIAny) -> *mut c_void,
    pub(super) import: unsafe extern "C-unwind" fn(This, *const *mut TVMFFIObject),
    pub(super) clear_imports: unsafe extern "C-unwind" fn(This),
}

// SAFETY: constant function pointers.
unsafe impl Sync for Vtable {}

static VTABLE: Vtable = Vtable {
    offset_to_top: 0,
    type_info: ptr::null(),
    kind: vt_kind,
    property_mask: vt_property_mask,
    function: vt_function,
    implements: vt_implements,
    doc: vt_doc,
    metadata: vt_metadata,
    write_to_file: vt_write_to_file,
    write_formats: vt_write_formats,
    save_to_bytes: vt_save_to_bytes,
    inspect_source: vt_inspect_source,
    import: vt_import,
    clear_imports: vt_clear_imports,
};

/// The implementation behind a C++ `this`.
///
/// # Safety
/// `this` is the C++ address of a module made by [`new_module`].
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

/// A `const String&`.
///
/// # Safety
/// `text` points to a valid string value that lives for `'a`.
unsafe fn text<'a>(text: *const TVMFFIAny) -> &'a str {
    // SAFETY: promised by the caller; a view is transparent over the raw struct.
    let view: &'a AnyView<'a> = unsafe { &*text.cast() };
    <&str>::from_any(view).unwrap_or_default()
}

/// Runs what a virtual function does. An error goes to a Rust caller that waits for it; else it is thrown as a C++ exception; where
/// nothing can throw it, it is at least said. In the first and the last case the result is `None`.
///
/// # Safety
/// Called from a virtual function of a module, which lets exceptions pass.
pub(super) unsafe fn or_throw<T>(work: impl FnOnce() -> Result<T>) -> Option<T> {
    let error = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => error,
        Err(payload) => {
            embedded::discard_panic(payload);
            Error::internal_error("a function of the module panicked")
        }
    };
    let error = across::tell(error)?;
    // SAFETY: promised by the caller.
    let error = unsafe { cpp_exception::throw(error) };
    crate::notice::notice(format_args!("kernpack: {error}"));
    None
}

// Each function below is reached only through the vtable of a module made by `new_module`, so `this` is one, and the other
// pointers are what the C++ signature says.

unsafe extern "C-unwind" fn vt_kind(this: This) -> *const c_char {
    // SAFETY: see above; the kind lives as long as the module.
    unsafe { body(this) }.kind.as_ptr()
}

unsafe extern "C-unwind" fn vt_property_mask(this: This) -> i32 {
    // SAFETY: see above.
    unsafe { or_throw(|| Ok(of(this).properties().bits())) }.unwrap_or_default()
}

/// The module's own function, remembered.
///
/// # Safety
/// As for [`of`].
unsafe fn own_function(this: This, name: &str) -> Result<Option<Function>> {
    // SAFETY: promised by the caller.
    unsafe { Module::borrowed(this.byte_add(8).cast()) }.own_function(name)
}

unsafe extern "C-unwind" fn vt_function(
    out: *mut *mut TVMFFIObject,
    this: This,
    name: *const TVMFFIAny,
) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe {
        let function = or_throw(|| own_function(this, text(name))).flatten();
        out.write(function.map_or(ptr::null_mut(), |function| function.into_any().into_raw().payload.v_obj));
    }
    out.cast()
}

unsafe extern "C-unwind" fn vt_implements(this: This, name: *const TVMFFIAny) -> bool {
    // SAFETY: see above.
    unsafe { or_throw(|| of(this).implements_function(text(name))).unwrap_or_default() }
}

unsafe extern "C-unwind" fn vt_doc(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe { out.write(or_throw(|| of(this).function_doc(text(name))).flatten().into_any().into_raw()) };
    out.cast()
}

unsafe extern "C-unwind" fn vt_metadata(out: *mut TVMFFIAny, this: This, name: *const TVMFFIAny) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe { out.write(or_throw(|| of(this).function_metadata(text(name))).flatten().into_any().into_raw()) };
    out.cast()
}

unsafe extern "C-unwind" fn vt_write_to_file(this: This, path: *const TVMFFIAny, format: *const TVMFFIAny) {
    // SAFETY: see above.
    unsafe { or_throw(|| of(this).write_to_file(text(path), text(format))) };
}

unsafe extern "C-unwind" fn vt_write_formats(out: *mut *mut TVMFFIObject, this: This) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe {
        let formats = or_throw(|| Ok(of(this).write_formats())).unwrap_or_default();
        out.write(formats.into_any().into_raw().payload.v_obj);
    };
    out.cast()
}

unsafe extern "C-unwind" fn vt_save_to_bytes(out: *mut TVMFFIAny, this: This) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe {
        let bytes = or_throw(|| of(this).save_to_bytes()).unwrap_or_else(|| Bytes::new(&[]));
        out.write(bytes.into_any().into_raw());
    }
    out.cast()
}

unsafe extern "C-unwind" fn vt_inspect_source(
    out: *mut TVMFFIAny,
    this: This,
    format: *const TVMFFIAny,
) -> *mut c_void {
    // SAFETY: see above; the caller releases the result.
    unsafe {
        let source = or_throw(|| of(this).inspect_source(text(format))).unwrap_or_default();
        out.write(source.into_any().into_raw());
    }
    out.cast()
}

/// `void ModuleObj::ImportModule(const Module& other)`, for every module.
///
/// # Safety
/// Called as C++ calls it.
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
/// Called as C++ calls it.
pub unsafe extern "C-unwind" fn vt_clear_imports(this: This) {
    // SAFETY: see above.
    unsafe { Module::borrowed(this.byte_add(8).cast()) }.clear_imports_locally();
}

/// The kind of any module, also one made in C++.
///
/// # Safety
/// `object` is a live module.
pub(super) unsafe fn vtable_of<'a>(object: *mut TVMFFIObject) -> (&'a Vtable, This) {
    // SAFETY: every module's vtable pointer stands 8 bytes before its header and points to the `kind` slot; the two words
    // before that slot are part of every Itanium vtable.
    unsafe {
        let this = object.byte_sub(8);
        let slots = *this.cast::<*const u8>();
        (&*slots.sub(core::mem::offset_of!(Vtable, kind)).cast::<Vtable>(), this.cast())
    }
}
