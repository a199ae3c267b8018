use core::ffi::{CStr, c_char};
use core::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::implementation::{
    ModuleImpl, ModuleProperties, implementation, is_nothing_found, new_module, nothing_found, vtable_of,
};
use super::import_order::ImportLock;
use super::library::exported_functions;
use super::{across, cpp_call, function_cache, raw};
use crate::abi::{TVMFFIAny, TVMFFIModuleCell, TVMFFIObject, type_index};
use crate::container::Array;
use crate::function::{Function, did_you_mean};
use crate::host::{self, Origin};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, AnyView, Arg, Bytes, FromAny, IntoAny, Mismatch, Schema, Str, ToArg, TypeSchema};
use crate::{Result, embedded};

/// Orders the use of what modules remember of searches in their imports, for all modules. Nothing else runs while it is held.
static FINDING: Mutex<()> = Mutex::new(());

/// A counted reference to a module: a loaded library, a device image, or a module of any other kind.
#[derive(Clone)]
#[repr(transparent)]
pub struct Module {
    object: ObjRef<ObjectRoot>,
}

/// Address and path of the modules that [`Module::load`] got from a host that is not ours, which does not tell a module's path.
static LOADED_BY_HOST: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

impl Module {
    /// Loads a library (`.so`) and what it carries. The library may be ours, C++, or exported by Apache TVM.
    ///
    /// A library stays loaded for the life of the process, so its functions and objects may outlive the module.
    ///
    /// # Errors
    /// RuntimeError that names the file and what is wrong with it: missing, no library, another architecture, a corrupt
    /// import tree, a module kind without a loader, or functions that can not be registered.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let Some(text) = path.to_str() else {
            return Err(crate::error!(ValueError, "the path {} is not valid UTF-8", path.display()));
        };
        // `dlopen` looks in the system's folders for a bare name; a file here is what the caller means.
        let text = if !text.contains('/') && path.exists() { format!("./{text}") } else { text.to_owned() };
        super::loader::check_file(Path::new(&text))?;
        if super::loader::serves_beside_process(&text) {
            return super::load_shared_library(&text);
        }
        let module: Self = Function::global("ffi.ModuleLoadFromFile")?.call_as((text.as_str(),))?;
        if host::origin() == Origin::Process {
            // The stock library unloads a library with its last reference; ours keep objects alive beyond that.
            Function::global("ffi.ModuleGlobalsAdd")?.call((&module,))?;
            // The module is kept for good, so its address stays its own.
            let mut loaded = LOADED_BY_HOST.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.push((module.object.object() as usize, text));
        }
        Ok(module)
    }

    /// A module of a kind that is written in Rust.
    pub fn new(implementation: impl ModuleImpl) -> Self {
        new_module(implementation)
    }

    /// The implementation of a module that this artifact made of a `T`; `None` for every other module.
    pub fn downcast_ref<T: ModuleImpl>(&self) -> Option<&T> {
        // SAFETY: the object is a live module for as long as `self`.
        let implementation: &dyn core::any::Any = unsafe { implementation(self.object.object()) }?;
        implementation.downcast_ref()
    }

    /// Takes over one reference.
    ///
    /// # Safety
    /// `object` is a live `ffi.Module`.
    pub(crate) unsafe fn from_object(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        Self { object: unsafe { ObjRef::from_object(object) } }
    }

    /// A new reference to a module that someone else keeps alive.
    ///
    /// # Safety
    /// `object` is a live `ffi.Module`.
    pub(crate) unsafe fn borrowed(object: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            embedded::inc_ref(object);
            Self::from_object(object)
        }
    }

    /// The module's own function of this name.
    ///
    /// # Errors
    /// KeyError with the nearest names when the module has none.
    #[track_caller]
    pub fn function(&self, name: &str) -> Result<Function> {
        if let Some(function) = self.get_function(name, false)? {
            return Ok(function);
        }
        let names = self.function_names();
        let hint = did_you_mean(name, &mut names.iter().map(String::as_str));
        Err(crate::error!(KeyError, "module of kind '{}' has no function '{name}'{hint}", self.kind()))
    }

    /// The function of this name, looked for in the imports too (depth first, in order) when `query_imports`; `None` when there
    /// is none.
    ///
    /// A module that was made in Rust remembers what it has found: finding it again takes no lock and allocates nothing.
    ///
    /// # Errors
    /// What the module reports.
    pub fn get_function(&self, name: &str, query_imports: bool) -> Result<Option<Function>> {
        if self.is_ours() {
            return raw::get_function(self, name, query_imports);
        }
        Function::global("ffi.ModuleGetFunction")?.call_as((self, name, query_imports))
    }

    /// Names of the module's own functions, as far as they can be found out (the symbol table of a library file).
    pub fn function_names(&self) -> Vec<String> {
        // SAFETY: the object is a live module.
        if let Some(module) = unsafe { implementation(self.object.object()) } {
            return module.function_names();
        }
        let loaded = LOADED_BY_HOST.lock().unwrap_or_else(PoisonError::into_inner);
        let address = self.object.object() as usize;
        let path = loaded.iter().find(|(module, _)| *module == address).map(|(_, path)| path);
        path.map(|path| exported_functions(Path::new(path))).unwrap_or_default()
    }

    /// Whether the module, or when `query_imports` one of its imports, has a function of this name.
    ///
    /// # Errors
    /// What the module reports.
    pub fn implements_function(&self, name: &str, query_imports: bool) -> Result<bool> {
        if self.is_ours() {
            return raw::implements_function(self, name, query_imports);
        }
        Function::global("ffi.ModuleImplementsFunction")?.call_as((self, name, query_imports))
    }

    /// The module's own function, remembered.
    pub(super) fn own_function(&self, name: &str) -> Result<Option<Function>> {
        raw::function(self, name)
    }

    /// Whether this artifact made the module.
    fn is_ours(&self) -> bool {
        // SAFETY: the object is a live module.
        unsafe { implementation(self.object.object()) }.is_some()
    }

    /// The serialized module, without its imports.
    ///
    /// # Errors
    /// RuntimeError when modules of the kind can not be serialized.
    pub fn save_to_bytes(&self) -> Result<Bytes> {
        if !self.properties().contains(ModuleProperties::BINARY_SERIALIZABLE) {
            return Err(crate::error!(RuntimeError, "a module of kind '{}' can not be serialized", self.kind()));
        }
        raw::save_to_bytes(self)
    }

    /// Formats that [`Module::write_to_file`] knows.
    ///
    /// # Errors
    /// What the module reports.
    pub fn write_formats(&self) -> Result<Vec<String>> {
        Function::global("ffi.ModuleGetWriteFormats")?.call_as((self,))
    }

    /// Writes the module's code to a file, in one of [`Module::write_formats`].
    ///
    /// # Errors
    /// RuntimeError for another format; OSError when the file can not be written.
    pub fn write_to_file(&self, path: impl AsRef<Path>, format: &str) -> Result<()> {
        let path = path.as_ref();
        let Some(text) = path.to_str() else {
            return Err(crate::error!(ValueError, "the path {} is not valid UTF-8", path.display()));
        };
        Function::global("ffi.ModuleWriteToFile")?.call((self, text, format)).map(drop)
    }

    /// Source code in a format, empty when there is none. An empty `format` asks for the one that reads best.
    ///
    /// # Errors
    /// What the module reports.
    pub fn inspect_source(&self, format: &str) -> Result<String> {
        Function::global("ffi.ModuleInspectSource")?.call_as((self, format))
    }

    /// Empties the imports.
    ///
    /// # Errors
    /// What the host reports.
    pub fn clear_imports(&self) -> Result<()> {
        // They go last: what a module's release does may wait for who waits for the lock.
        let _last = self.imports();
        let _alone = self.lock_if_not_ours();
        Function::global("ffi.ModuleClearImports")?.call((self,)).map(drop)
    }

    /// Kind: `library`, `cuda`, ... Empty when a C++ module fails to say it.
    pub fn kind(&self) -> String {
        // SAFETY: the object is a live module; its kind is a NUL-terminated string that lives as long as it.
        unsafe {
            let (vtable, this) = vtable_of(self.object.object());
            let kind = cpp_call::call_simple(vtable.kind as _, this);
            let kind = core::ptr::with_exposed_provenance::<c_char>(kind);
            if kind.is_null() {
                String::new()
            } else {
                String::from_utf8_lossy(CStr::from_ptr(kind).to_bytes()).into_owned()
            }
        }
    }

    /// What can be done with the module.
    pub fn properties(&self) -> ModuleProperties {
        // SAFETY: the object is a live module.
        ModuleProperties::from_bits(unsafe {
            let (vtable, this) = vtable_of(self.object.object());
            cpp_call::call_simple(vtable.property_mask as _, this) as i32
        })
    }

    /// The imported modules, in order.
    pub fn imports(&self) -> Vec<Module> {
        let array = {
            let _unchanged = ImportLock::take();
            self.imports_array()
        };
        array.to_vec()
    }

    /// The caller holds the [`ImportLock`].
    fn imports_array(&self) -> Array<Module> {
        // SAFETY: the object is a live module, whose cell owns an array; it is only changed under the lock.
        let raw = unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object.object());
            AnyView::from_raw(TVMFFIAny::pointer(type_index::ARRAY, (*cell).imports.cast()))
        };
        // An array that holds something else than modules would break the ABI's contract; it counts as empty.
        Array::from_any(&raw).unwrap_or_else(|_| Array::from_iter(std::iter::empty::<Module>()))
    }

    /// The JSON metadata of a function; `None` when the module has none.
    ///
    /// # Errors
    /// What the module reports.
    pub fn metadata(&self, name: &str) -> Result<Option<String>> {
        Function::global("ffi.ModuleGetFunctionMetadata")?.call_as((self, name, false))
    }

    /// The documentation of a function; `None` when the module has none.
    ///
    /// # Errors
    /// What the module reports.
    pub fn doc(&self, name: &str) -> Result<Option<String>> {
        Function::global("ffi.ModuleGetFunctionDoc")?.call_as((self, name, false))
    }

    /// Adds a module to the imports.
    ///
    /// # Errors
    /// RuntimeError when that would make a cycle.
    pub fn import(&self, other: &Module) -> Result<()> {
        let _alone = self.lock_if_not_ours();
        // The host calls a virtual function, whose error may not get through it as an exception.
        let import = Function::global("ffi.ModuleImportModule")?;
        across::listening(|| import.call((self, other)).map(drop))
    }

    /// Modules of ours lock for themselves when they change; those in C++ do not.
    fn lock_if_not_ours(&self) -> Option<ImportLock> {
        (!self.is_ours()).then(ImportLock::take)
    }

    /// The import as the embedded implementation does it.
    pub(super) fn import_locally(&self, other: &Module) -> Result<()> {
        let mut pending = vec![other.clone()];
        let mut seen = raw::Seen::default();
        // Unlocked before anything above is released: the release of a module may run any code.
        let _alone = ImportLock::take();
        while let Some(module) = pending.pop() {
            if module.same(self) {
                return Err(crate::error!(
                    RuntimeError,
                    "Cyclic dependency detected during import: a module of kind '{}' would import itself",
                    self.kind()
                ));
            }
            if seen.insert(&module) {
                pending.extend(module.imports_array().to_vec());
            }
        }
        self.append(std::slice::from_ref(other));
        Ok(())
    }

    /// Appends modules, of which the caller knows that none of them leads back here.
    pub(super) fn append_imports(&self, others: &[Module]) {
        let _alone = ImportLock::take();
        self.append(others);
    }

    /// The caller holds the [`ImportLock`]. The old array's modules are all in the new one, so none of them goes.
    fn append(&self, others: &[Module]) {
        let mut imports: Vec<Module> = self.imports_array().to_vec();
        imports.extend_from_slice(others);
        drop(self.replace_imports(imports));
    }

    pub(super) fn clear_imports_locally(&self) {
        let old = {
            let _alone = ImportLock::take();
            self.replace_imports(Vec::new())
        };
        drop(old);
    }

    /// Empties the imports, and forgets what was found in them.
    pub(super) fn forget_imports(&self) {
        self.clear_imports_locally();
        let one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.replace_found(nothing_found());
        drop(one_at_a_time);
        drop(found);
    }

    /// Puts a map in the place of what was found in the imports, and hands that out. The caller holds [`FINDING`] and gives up a
    /// reference to the map.
    fn replace_found(&self, map: *mut TVMFFIObject) -> Option<Any> {
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the lock; its reference goes to the
        // result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object.object());
            let found = core::mem::replace(&mut (*cell).import_lookup_cache, map);
            (!found.is_null()).then(|| Any::from_object(found))
        }
    }

    /// Whether nobody else has a reference to this module.
    pub(super) fn is_only_reference(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { embedded::is_unique(self.object.object()) }
    }

    /// The caller holds the [`ImportLock`]. The result is the old array.
    fn replace_imports(&self, imports: Vec<Module>) -> Any {
        function_cache::tree_changed();
        // SAFETY: the object is a live module; the new array replaces the old one, whose reference goes to the result.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFIModuleCell>(self.object.object());
            let array = imports.into_any().into_raw().payload.v_obj;
            Any::from_object(core::mem::replace(&mut (*cell).imports, array))
        }
    }

    /// The function of this name in what this module imports, depth first; found once, then remembered in the module.
    pub(super) fn find_import(&self, name: &str) -> Result<Option<Function>> {
        let key = Str::new(name).into_any();
        {
            let _one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = self.found_before(&key) {
                return known.to().map(Some);
            }
        }
        // Unlocked: what a module does to find a function is its own business, and may come here again.
        for import in self.imports() {
            if let Some(function) = raw::visit(&import, true, &mut |module| raw::function(module, name))? {
                return self.note_found(key, function).map(Some);
            }
        }
        Ok(None)
    }

    /// What was found under this name. The caller holds [`FINDING`].
    fn found_before(&self, key: &Any) -> Option<Any> {
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the lock; an entry is borrowed from the
        // map and gets a reference of its own.
        unsafe {
            let found = (*embedded::body_ptr::<TVMFFIModuleCell>(self.object.object())).import_lookup_cache;
            let known = embedded::map::get(found, key.as_view().raw()).ok().flatten()?;
            AnyView::from_raw(known).to_owned().ok()
        }
    }

    /// Remembers what was found under a name, unless another thread was quicker; then that is the function for everyone.
    fn note_found(&self, key: Any, function: Function) -> Result<Function> {
        let _one_at_a_time = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.found_before(&key) {
            return known.to();
        }
        // SAFETY: the object is a live module, whose cell owns a map that is only used under the lock.
        let mut found = unsafe { (*embedded::body_ptr::<TVMFFIModuleCell>(self.object.object())).import_lookup_cache };
        if is_nothing_found(found) {
            let Ok(own) = embedded::map::new_map(Vec::new()) else { return Ok(function) };
            drop(self.replace_found(own));
            found = own;
        }
        let value = function.clone().into_any().into_raw();
        // SAFETY: as above, and the map is this module's own; it takes over key and value.
        let _ = unsafe { embedded::map::set(found, key.into_raw(), value) };
        Ok(function)
    }

    /// Whether both are the same module.
    pub(crate) fn same(&self, other: &Module) -> bool {
        self.object.ptr_eq(&other.object)
    }

    /// What tells this module from all others for as long as it lives.
    pub(super) fn address(&self) -> usize {
        self.object.object().addr()
    }

    /// The object's header, borrowed.
    pub(super) fn object(&self) -> *mut TVMFFIObject {
        self.object.object()
    }

    /// What libraries get as their context, and give to `TVMFFIEnvModLookupFromImports`: ours wants the object, the stock one the
    /// C++ object, which begins with the pointer to its virtual functions.
    pub(super) fn context(&self) -> *mut core::ffi::c_void {
        let object = self.object.object();
        let in_front = if host::origin() == Origin::Process { size_of::<*const ()>() } else { 0 };
        // SAFETY: every module has that pointer in front of its header.
        unsafe { object.byte_sub(in_front) }.cast()
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({}, {} imports)", self.kind(), self.imports().len())
    }
}

/// Identity: the same module object.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Eq for Module {}

impl Schema for Module {
    const TYPE: TypeSchema = TypeSchema::new("ffi.Module");
    const STORAGE: crate::object::Storage = crate::object::Storage::Object;

    unsafe fn is_set(place: *const core::ffi::c_void) -> bool {
        // SAFETY: promised by the caller.
        unsafe { !place.cast::<*const core::ffi::c_void>().read().is_null() }
    }
}

impl<'a> FromAny<'a> for Module {
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        let object = value.object().ok_or(Mismatch::TYPE)?;
        // SAFETY: the view keeps the object alive; its index is checked before it is taken for a module.
        unsafe {
            if (*object).type_index != type_index::MODULE {
                return Err(Mismatch::TYPE);
            }
            Ok(Self::borrowed(object))
        }
    }
}

impl IntoAny for Module {
    fn into_any(self) -> Any {
        self.object.into_any()
    }
}

impl ToArg for Module {
    fn to_arg(&self) -> Arg<'_> {
        self.object.to_arg()
    }
}

impl From<Module> for Any {
    fn from(module: Module) -> Self {
        module.into_any()
    }
}
