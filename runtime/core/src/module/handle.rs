use core::ffi::{CStr, c_char};
use core::fmt;
use std::path::Path;

use super::cpp::call as cpp_call;
use super::cpp::vtable::vtable_of;
use super::implementation::{ModuleImpl, ModuleProperties};
use super::object::{implementation, new_module};
use super::{files, operations};
use crate::abi::{TVMFFIObject, type_index};
use crate::function::{Function, did_you_mean};
use crate::object::{ObjRef, ObjectRoot};
use crate::provider::{self, Origin};
use crate::value::{Any, AnyView, Arg, Bytes, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, raw_handle};
use crate::{Result, embedded};

/// A counted reference to a module: a loaded library, a device image, or a module of any other
/// kind.
#[derive(Clone)]
#[repr(transparent)]
pub struct Module {
    object: ObjRef<ObjectRoot>,
}

raw_handle!(ObjRef: => Module, "`ffi.Module`");

// The provider's global functions are called if they exist: they may have been replaced.
impl Module {
    /// Creates a module of a kind that is implemented in Rust.
    #[inline]
    pub fn new(implementation: impl ModuleImpl) -> Self {
        new_module(implementation)
    }

    /// Returns the implementation of a module that this artifact created from a `T`; `None` for
    /// every other module.
    #[inline]
    pub fn downcast_ref<T: ModuleImpl>(&self) -> Option<&T> {
        // SAFETY: the object is a live module for as long as `self`.
        let implementation: &dyn core::any::Any = unsafe { implementation(self.object.as_ptr()) }?;
        implementation.downcast_ref()
    }

    /// Returns a new reference to a module that other code keeps alive.
    ///
    /// # Safety
    /// `object` is a live `ffi.Module`.
    #[inline]
    pub(crate) unsafe fn borrowed(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            embedded::inc_ref(object);
            Self::from_raw(object)
        }
    }

    /// Returns the module's own function of this name.
    ///
    /// # Errors
    /// Returns a KeyError with the nearest names if the module does not have it.
    #[track_caller]
    #[inline]
    pub fn function(&self, name: &str) -> Result<Function> {
        if let Some(function) = self.find_function(name)? {
            return Ok(function);
        }
        let names = self.function_names();
        let hint = did_you_mean(name, &mut names.iter().map(String::as_str));
        Err(crate::error!(KeyError, "module of kind '{}' has no function '{name}'{hint}", self.kind()))
    }

    /// Returns the module's own function of this name; `None` if it does not have one.
    ///
    /// A module that is implemented in Rust caches the result: finding it again does not take a
    /// lock or allocate.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn find_function(&self, name: &str) -> Result<Option<Function>> {
        self.look_up(name, false)
    }

    /// Returns the function of this name from the module or one of its imports (depth first, in
    /// order).
    ///
    /// # Errors
    /// Returns a KeyError if none of them has it.
    #[track_caller]
    #[inline]
    pub fn function_in_tree(&self, name: &str) -> Result<Function> {
        match self.find_function_in_tree(name)? {
            Some(function) => Ok(function),
            None => Err(crate::error!(
                KeyError,
                "neither the module of kind '{}' nor its imports have a function '{name}'",
                self.kind()
            )),
        }
    }

    /// Returns the function of this name from the module or one of its imports (depth first, in
    /// order); `None` if none of them has it.
    ///
    /// # Errors
    /// Returns the modules' errors.
    #[inline]
    pub fn find_function_in_tree(&self, name: &str) -> Result<Option<Function>> {
        self.look_up(name, true)
    }

    #[inline]
    fn look_up(&self, name: &str, query_imports: bool) -> Result<Option<Function>> {
        if self.is_ours() {
            return operations::get_function(self, name, query_imports);
        }
        match Function::find_global("ffi.ModuleGetFunction")? {
            Some(get) => get.call_as((self, name, query_imports)),
            None => operations::get_function(self, name, query_imports),
        }
    }

    /// Names of the module's own functions, as far as they are known (from the symbol table of a
    /// library file).
    #[inline]
    pub fn function_names(&self) -> Vec<String> {
        // SAFETY: the object is a live module.
        if let Some(module) = unsafe { implementation(self.object.as_ptr()) } {
            return module.function_names();
        }
        files::path_of(self.object.as_ptr()).map(|path| files::exported_functions(Path::new(&path))).unwrap_or_default()
    }

    /// Returns whether the module itself has a function of this name.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn implements_function(&self, name: &str) -> Result<bool> {
        self.implements(name, false)
    }

    /// Returns whether the module or one of its imports has a function of this name.
    ///
    /// # Errors
    /// Returns the modules' errors.
    #[inline]
    pub fn implements_function_in_tree(&self, name: &str) -> Result<bool> {
        self.implements(name, true)
    }

    #[inline]
    fn implements(&self, name: &str, query_imports: bool) -> Result<bool> {
        if self.is_ours() {
            return operations::implements_function(self, name, query_imports);
        }
        match Function::find_global("ffi.ModuleImplementsFunction")? {
            Some(implements) => implements.call_as((self, name, query_imports)),
            None => operations::implements_function(self, name, query_imports),
        }
    }

    /// Returns the module's own function, which is cached.
    #[inline]
    pub(super) fn own_function(&self, name: &str) -> Result<Option<Function>> {
        operations::function(self, name)
    }

    /// Returns whether this artifact made the module.
    #[inline]
    pub(super) fn is_ours(&self) -> bool {
        // SAFETY: the object is a live module.
        unsafe { implementation(self.object.as_ptr()) }.is_some()
    }

    /// Serializes the module without its imports.
    ///
    /// # Errors
    /// Returns a RuntimeError if modules of the kind cannot be serialized.
    #[inline]
    pub fn save_to_bytes(&self) -> Result<Bytes> {
        if !self.properties().contains(ModuleProperties::BINARY_SERIALIZABLE) {
            return Err(crate::error!(RuntimeError, "a module of kind '{}' cannot be serialized", self.kind()));
        }
        operations::save_to_bytes(self)
    }

    /// Formats that [`Module::write_to_file`] supports.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn write_formats(&self) -> Result<Vec<String>> {
        match Function::find_global("ffi.ModuleGetWriteFormats")? {
            Some(formats) => formats.call_as((self,)),
            None => operations::write_formats(self),
        }
    }

    /// Writes the module's code to a file, in one of [`Module::write_formats`].
    ///
    /// # Errors
    /// Returns a RuntimeError for another format, and an OSError if the file cannot be written.
    #[inline]
    pub fn write_to_file(&self, path: impl AsRef<Path>, format: &str) -> Result<()> {
        let path = path.as_ref();
        let Some(text) = path.to_str() else {
            return Err(crate::error!(ValueError, "the path {} is not valid UTF-8", path.display()));
        };
        match Function::find_global("ffi.ModuleWriteToFile")? {
            Some(write) => write.call((self, text, format)).map(drop),
            None => operations::write_to_file(self, text, format),
        }
    }

    /// Returns source code in a format, or an empty string if there is none. An empty `format`
    /// selects the most readable one.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn inspect_source(&self, format: &str) -> Result<String> {
        match Function::find_global("ffi.ModuleInspectSource")? {
            Some(inspect) => inspect.call_as((self, format)),
            None => Ok((*operations::inspect_source(self, format)?).to_owned()),
        }
    }

    /// Kind: `library`, `cuda`, ... Empty if a C++ module fails to return it.
    #[inline]
    pub fn kind(&self) -> String {
        // SAFETY: the object is a live module; its kind is a NUL-terminated string that lives as
        // long as it.
        unsafe {
            let (vtable, this) = vtable_of(self.object.as_ptr());
            let kind = cpp_call::call_simple(vtable.kind as _, this);
            let kind = core::ptr::with_exposed_provenance::<c_char>(kind);
            if kind.is_null() {
                String::new()
            } else {
                String::from_utf8_lossy(CStr::from_ptr(kind).to_bytes()).into_owned()
            }
        }
    }

    /// The operations that the module supports.
    #[inline]
    pub fn properties(&self) -> ModuleProperties {
        // SAFETY: the object is a live module.
        ModuleProperties::from_bits(unsafe {
            let (vtable, this) = vtable_of(self.object.as_ptr());
            cpp_call::call_simple(vtable.property_mask as _, this) as i32
        })
    }

    /// Returns the JSON metadata of a function; `None` if the module does not have any.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn metadata(&self, name: &str) -> Result<Option<String>> {
        self.text("ffi.ModuleGetFunctionMetadata", name)
    }

    /// Returns the documentation of a function; `None` if the module does not have any.
    ///
    /// # Errors
    /// Returns the module's error.
    #[inline]
    pub fn doc(&self, name: &str) -> Result<Option<String>> {
        self.text("ffi.ModuleGetFunctionDoc", name)
    }

    /// Calls a global function of the provider that returns a text about a function of this module.
    #[inline]
    fn text(&self, ask: &str, name: &str) -> Result<Option<String>> {
        match Function::find_global(ask)? {
            Some(ask) => ask.call_as((self, name, false)),
            None => {
                let text = operations::text(self, name, ask.ends_with("Doc"))?;
                Ok(text.map(|text| (*text).to_owned()))
            }
        }
    }

    /// Returns whether this is the only reference to the module.
    #[inline]
    pub(super) fn is_only_reference(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { embedded::is_unique(self.object.as_ptr()) }
    }

    /// Returns whether both are the same module.
    #[doc(hidden)]
    #[inline]
    pub fn same(&self, other: &Module) -> bool {
        self.object.ptr_eq(&other.object)
    }

    /// An identity that no other module has while this one lives.
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.object.as_ptr().addr()
    }

    /// The context that libraries receive and pass to `TVMFFIEnvModLookupFromImports`: our
    /// implementation expects the object, the stock one the C++ object, which begins with the
    /// vtable pointer.
    #[inline]
    pub(super) fn context(&self) -> *mut core::ffi::c_void {
        let object = self.object.as_ptr();
        let in_front = if provider::origin() == Origin::Process { size_of::<*const ()>() } else { 0 };
        // SAFETY: every module has the vtable pointer before its header.
        unsafe { object.byte_sub(in_front) }.cast()
    }
}

impl fmt::Debug for Module {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({}, {} imports)", self.kind(), self.imports().len())
    }
}

/// Compares by identity: true for the same module object.
impl PartialEq for Module {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Eq for Module {}

impl core::hash::Hash for Module {
    #[inline]
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_ptr().hash(state);
    }
}

impl Schema for Module {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Module");
    const STORAGE: crate::value::Storage = crate::value::Storage::Object;

    #[inline]
    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a> FromAny<'a> for Module {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is treated as a
        // module.
        unsafe {
            if (*object).type_index != type_index::MODULE {
                return Err(Mismatch::TYPE);
            }
            Ok(Self::borrowed(object))
        }
    }
}

impl IntoAny for Module {
    #[inline]
    fn into_any(self) -> Any {
        self.object.into_any()
    }
}

impl ToArg for Module {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl From<Module> for Any {
    #[inline]
    fn from(module: Module) -> Self {
        module.into_any()
    }
}
