//! The context symbols that a loader provides to generated code, and a library's access to its
//! imports.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use super::linked;
use super::symbols::Symbols;
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::device::workspace;
use crate::function::{Function, guard_nameless, views};
use crate::module::Module;
use crate::module::library_bin::LIBRARY_BIN_SYMBOL;
use crate::provider::{self, Origin};
use crate::value::{AnyView, IntoAny};
use crate::{Error, Result, artifact, embedded, thread_pool};

/// Writes the address of each registered context symbol into the library's variable of the same
/// name.
#[inline]
pub(in crate::module) fn fill_context_symbols(library: &dyn Symbols) {
    for (name, value) in registered().unwrap_or_default() {
        let variable = library.symbol(&name).cast::<*mut c_void>();
        if !variable.is_null() {
            // SAFETY: the ABI reserves these names for pointer variables that the loader sets.
            unsafe { variable.write(value) };
        }
    }
}

/// The context symbols for code in memory: the registered ones, or our own if the implementation in
/// use cannot list them.
#[inline]
pub(super) fn symbols_for_code() -> Vec<(String, *mut c_void)> {
    let own = || symbols().map(|(name, address)| (name.to_string_lossy().into_owned(), address)).to_vec();
    registered().unwrap_or_else(own)
}

/// Returns whether the libtvm_ffi in this process can list its context symbols, so that our own
/// loader can be used beside it: the stock one can.
#[inline]
pub(in crate::module) fn is_told_by_process() -> bool {
    provider::origin() == Origin::Process && visit_in_process().is_some()
}

/// The registered context symbols in their order, in which a later one takes precedence; `None` if
/// the implementation in use cannot list them.
#[inline]
fn registered() -> Option<Vec<(String, *mut c_void)>> {
    let named = |(name, address)| String::from_utf8(name).ok().map(|name| (name, address));
    if provider::origin() != Origin::Process {
        return Some(embedded::module_env::context_symbols().into_iter().filter_map(named).collect());
    }
    /// The visited symbols. Addresses are stored as numbers.
    type Visited = Mutex<Vec<(String, usize)>>;
    #[inline]
    unsafe extern "C" fn note(this: *mut c_void, args: *const TVMFFIAny, count: i32, _: *mut TVMFFIAny) -> i32 {
        // SAFETY: the handle is the function created below; the caller passes `count` arguments
        // that live for the call, a string and an address.
        unsafe {
            if count == 2
                && (*args.add(1)).type_index == type_index::OPAQUE_PTR
                && let Ok(name) = AnyView::from_raw(*args).get::<&str>()
            {
                let address = (*args.add(1)).payload.v_ptr.expose_provenance();
                let visited = embedded::closure_of::<Visited>(this);
                visited.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), address));
            }
        }
        0
    }
    let visit = visit_in_process()?;
    let callback = embedded::new_function(note, Visited::default());
    // SAFETY: the callback does not raise errors, so no exception is thrown. It is a function
    // created here, whose one reference is owned.
    unsafe {
        visit(&callback);
        let visited = core::mem::take(
            &mut *embedded::closure_of::<Visited>(callback.cast()).lock().unwrap_or_else(PoisonError::into_inner),
        );
        embedded::dec_ref(callback);
        Some(visited.into_iter().map(|(name, address)| (name, ptr::with_exposed_provenance_mut(address))).collect())
    }
}

/// `static void Module::VisitContextSymbols(const TypedFunction<void(String, void*)>&)`: a
/// reference to a handle.
type Visit = unsafe extern "C" fn(callback: *const *mut TVMFFIObject);

/// Returns that function of the libtvm_ffi in this process; only the stock one has it.
#[inline]
fn visit_in_process() -> Option<Visit> {
    let symbol =
        provider::process_symbol(c"_ZN3tvm3ffi6Module19VisitContextSymbolsERKNS0_13TypedFunctionIFvNS0_6StringEPvEEE");
    // SAFETY: the mangled name determines the type; NULL is `None`.
    unsafe { core::mem::transmute::<*mut c_void, Option<Visit>>(symbol) }
}

/// The context symbols and their addresses.
#[inline]
pub(super) fn symbols() -> [(&'static CStr, *mut c_void); 8] {
    let api = provider::api();
    let [allocate, free, launch, barrier] = backend_symbols();
    [
        (c"__TVMFFIFunctionCall", api.function_call as *mut c_void),
        (c"__TVMFFIErrorSetRaisedFromCStr", api.error_set_raised_from_c_str as *mut c_void),
        (c"__TVMFFIEnvModLookupFromImports", api.env_mod_lookup_from_imports as *mut c_void),
        (c"__TVMFFIHandleInitOnce", api.handle_init_once as *mut c_void),
        allocate,
        free,
        launch,
        barrier,
    ]
}

/// The functions that compiled code calls beyond the C ABI.
#[inline]
fn backend_symbols() -> [(&'static CStr, *mut c_void); 4] {
    [
        (c"__TVMBackendAllocWorkspace", workspace::alloc_workspace as *mut c_void),
        (c"__TVMBackendFreeWorkspace", workspace::free_workspace as *mut c_void),
        (c"__TVMBackendParallelLaunch", thread_pool::parallel_launch as *mut c_void),
        (c"__TVMBackendParallelBarrier", thread_pool::parallel_barrier as *mut c_void),
    ]
}

/// Registers the context symbols with the implementation in use, unless that is already done:
/// Apache TVM's runtime has its own, a plain libtvm_ffi has none. If two artifacts register the
/// same name, libraries loaded later get the later one.
///
/// The code that uses the symbols calls this: kernels and modules that the artifact contains, and
/// the loader. Therefore an artifact without these does not link the thread pool.
///
/// # Errors
/// Returns the provider's error.
pub fn offer_context_symbols() -> Result<()> {
    if !cfg!(feature = "embedded") {
        return Ok(());
    }
    // The first use binds this artifact, which may call this function.
    provider::api();
    if OFFERED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let stock = (provider::origin_while_binding() == Origin::Process).then(visit_in_process).flatten();
    match stock {
        Some(visit) => note_names_in_process(visit),
        // The provider is ours. It cannot list names, so a global function records that another
        // artifact has registered them.
        None if Function::find_global(OFFER)?.is_some() => return Ok(()),
        None => {
            // SAFETY: a new function object; the handle takes ownership of its one reference.
            let done = unsafe { Function::from_raw(embedded::new_function(say_nothing, ())) };
            // Another artifact may be faster; both register the same symbols.
            let _ = Function::register_global(OFFER, &done);
        }
    }
    let known = KNOWN.load(Ordering::Relaxed);
    for (index, (name, address)) in symbols().into_iter().enumerate() {
        if known & 1 << index == 0 {
            // SAFETY: the name is a C string; the address is a function that lives forever.
            Error::check(unsafe { (provider::api().env_mod_register_context_symbol)(name.as_ptr(), address) })?;
        }
    }
    Ok(())
}

/// The global function that records that the context symbols are registered; its result is None.
const OFFER: &str = "kernpack.context_symbols_v1";

/// True if this artifact has registered the context symbols or found them registered.
static OFFERED: AtomicBool = AtomicBool::new(false);

#[inline]
unsafe extern "C" fn say_nothing(_: *mut c_void, _: *const TVMFFIAny, _: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the caller passes memory for a result.
    unsafe { result.write(TVMFFIAny::NONE) };
    0
}

/// One bit for each of [`symbols`] that the libtvm_ffi of this process has.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Determines the context symbols that the stock libtvm_ffi of this process has. Its C API cannot
/// list them, its C++ API can.
#[inline]
fn note_names_in_process(visit: Visit) {
    /// Records one of [`symbols`]. This artifact is being bound, so it only reads names.
    #[inline]
    unsafe extern "C" fn note(_: *mut c_void, args: *const TVMFFIAny, count: i32, _: *mut TVMFFIAny) -> i32 {
        if count > 0 {
            // SAFETY: the caller passes `count` arguments that live for the call.
            let name = unsafe { AnyView::from_raw(*args) };
            let name = name.get::<&str>().unwrap_or_default();
            if let Some(index) = symbols().iter().position(|(known, _)| known.to_bytes() == name.as_bytes()) {
                KNOWN.fetch_or(1 << index, Ordering::Relaxed);
            }
        }
        0
    }
    let callback = embedded::new_function(note, ());
    // SAFETY: the callback does not raise errors, so no exception is thrown. The reference is
    // owned.
    unsafe {
        visit(&callback);
        embedded::dec_ref(callback);
    }
}

/// Registers the function that searches the imports of a library, which
/// `TVMFFIEnvModLookupFromImports` of our own implementation calls before it searches the global
/// functions. Registered when an artifact loads its first library, so that an artifact that does
/// not load any does not link it.
#[inline]
pub(in crate::module) fn offer_import_lookup() -> Result<()> {
    let name = embedded::module_env::IMPORT_LOOKUP;
    if provider::origin() != Origin::Process && Function::find_global(name)?.is_none() {
        // SAFETY: a new function object; the handle takes ownership of its one reference.
        let lookup = unsafe { Function::from_raw(embedded::new_function(lookup_for_library, ())) };
        // An artifact on another thread may have registered its own since the lookup; all of them
        // do the same.
        let _ = Function::register_global(name, &lookup);
    }
    Ok(())
}

/// Looks up a name in the imports of a library. Takes the library's context and a name; returns a
/// function or None.
#[inline]
unsafe extern "C" fn lookup_for_library(
    _: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    guard_nameless(|| {
        // SAFETY: the ABI's calling convention. A context is a module's handle, and that module is
        // kept alive forever.
        unsafe {
            let [context, name] = views(args, count) else {
                return Err(Error::type_error("expected the context of a library and a name"));
            };
            let context: *mut c_void = context.get()?;
            let found =
                find_for_library(context.cast(), name).map_err(|error| Error::runtime_error(error.message()))?;
            result.write(found.map_or(TVMFFIAny::NONE, |found| found.into_any().into_raw()));
        }
        Ok(())
    })
}

/// # Safety
/// `library_ctx` is a context that [`super::loader`] stored.
#[inline]
unsafe fn find_for_library(library_ctx: *mut TVMFFIObject, name: &AnyView<'_>) -> Result<Option<Function>> {
    // SAFETY: promised by the caller; the module is kept alive forever.
    let module = unsafe { Module::borrowed(library_ctx) };
    // Functions do not have names that are not UTF-8.
    let Ok(name) = name.get::<&str>() else { return Ok(None) };
    module.find_import(name)
}

/// Returns the function `name` from the imports of this library, or of a crate that it links. A
/// library that was not loaded as a module, because Python imported it or a program opened it with
/// `dlopen`, loads itself as one.
#[inline]
pub(crate) fn lookup_in_imports(name: &str) -> Result<Function> {
    // Binding registers the modules in this artifact; a kernel may be the first code that needs
    // them.
    provider::api();
    let context = match artifact::library_context() {
        context if context.is_null() => match context_of_own()? {
            Some(context) => context,
            None => return linked::find(name, None),
        },
        context => context,
    };
    let c_name = CString::new(name).map_err(|_| Error::value_error("a function's name cannot contain a NUL byte"))?;
    let mut function: *mut TVMFFIObject = ptr::null_mut();
    // SAFETY: the loader stored the context; the result is borrowed from the loader's cache, so it
    // gets a reference.
    unsafe {
        let status = (provider::api().env_mod_lookup_from_imports)(
            context.cast(),
            c_name.as_ptr().cast::<c_char>(),
            &mut function,
        );
        if let Err(error) = Error::check(status) {
            return linked::find(name, Some(error));
        }
        embedded::inc_ref(function);
        Ok(Function::from_raw(function))
    }
}

/// Loads this library itself as a module, which stays, and returns its context; `None` in a
/// program, whose import tree is not exported.
#[cold]
#[inline]
fn context_of_own() -> Result<Option<*mut c_void>> {
    let Some(file) = artifact::own_symbol(LIBRARY_BIN_SYMBOL).and_then(|symbol| artifact::file_of(symbol.cast()))
    else {
        return Ok(None);
    };
    // It is the context from now on, so it is never freed. No lock is held, because loaders of
    // other languages may run: threads that arrive here at the same time load a module each.
    core::mem::forget(Module::load(file)?);
    Ok(Some(artifact::library_context()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ModuleImpl;
    use std::sync::OnceLock;

    static ROOT: OnceLock<Module> = OnceLock::new();

    /// A module that searches the root's imports, of which it is one, to find a function.
    struct Asking;

    impl ModuleImpl for Asking {
        fn kind(&self) -> &str {
            "test.asking"
        }

        fn find_function(&self, name: &str) -> Result<Option<Function>> {
            match (name, ROOT.get()) {
                ("outer", Some(root)) => root.find_import("inner"),
                ("inner", _) => Ok(Some(Function::from_fn(|| 5i64))),
                _ => Ok(None),
            }
        }
    }

    #[test]
    fn a_search_may_lead_to_another() {
        let root = ROOT.get_or_init(|| Module::new(Asking));
        root.import(&Module::new(Asking)).unwrap();
        for _ in 0..2 {
            assert_eq!(root.find_import("outer").unwrap().unwrap().call_as::<i64>(()).unwrap(), 5);
            assert!(root.find_import("none").unwrap().is_none());
        }
    }
}
