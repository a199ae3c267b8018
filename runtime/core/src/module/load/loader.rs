//! Loading of a library: join, context symbols, import tree (module.md section 4).

use core::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::library::LibraryModule;
use super::shared_library::SharedLibrary;
use super::symbols::Symbols;
use super::{context, context_modules};
use crate::abi::ApiTable;
use crate::function::Function;
use crate::module::elf::{self, FileKind};
use crate::module::files::read_at;
use crate::module::kinds::{self, missing_loader};
use crate::module::library_bin::{LIBRARY_BIN_SYMBOL, LibraryBin};
use crate::module::object::new_module;
use crate::module::{Module, operations};
use crate::provider::Origin;
use crate::value::Bytes;
use crate::{Error, Result, artifact, provider};

/// Checks a file, to report problems more clearly than the dynamic linker.
#[inline]
pub(crate) fn check_file(path: &Path) -> Result<()> {
    let problem = |text: String| Err(crate::error!(RuntimeError, "cannot load {}: {text}", path.display()));
    if !path.to_string_lossy().contains('/') {
        // A bare name is looked up by the dynamic linker.
        return Ok(());
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return problem("there is no such file".to_owned());
        }
        Err(error) => return problem(error.to_string()),
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return problem("it is a folder".to_owned());
    }
    let head = match read_at(&file, 0, elf::HEADER_SIZE) {
        Ok(head) => head,
        Err(error) => return problem(error.to_string()),
    };
    match elf::file_kind(&head) {
        // Other formats (a user's module kind) have their own loaders, selected by the file's
        // extension.
        FileKind::NotElf if !is_shared_library_name(path) => Ok(()),
        FileKind::NotElf => problem("it is not a shared library (no ELF header)".to_owned()),
        FileKind::OtherClass(what) => problem(format!("it is {what}, this process is 64-bit little-endian")),
        FileKind::Machine(machine) if machine != elf::own_machine() && elf::own_machine() != 0 => problem(format!(
            "it is for {}, this process is {}; build the library for this machine",
            elf::machine_name(machine),
            elf::machine_name(elf::own_machine())
        )),
        FileKind::Machine(_) => match missing_bytes(&file, &head) {
            Some(missing) => {
                problem(format!("it is cut off: {missing} bytes are missing at its end; copy or build it again"))
            }
            None => Ok(()),
        },
    }
}

/// Returns the number of bytes that an ELF file lacks at the end of its segments. `None` if it is
/// complete, and if it cannot be parsed: the dynamic linker reports the problem then.
#[inline]
fn missing_bytes(file: &File, head: &[u8]) -> Option<u64> {
    let size = file.metadata().ok()?.len();
    let needed = match elf::program_headers(head) {
        None if head.len() < elf::HEADER_SIZE => elf::HEADER_SIZE as u64,
        None => return None,
        Some((start, headers_size)) if start.saturating_add(headers_size as u64) > size => {
            start.saturating_add(headers_size as u64)
        }
        Some((start, headers_size)) => elf::end_of_segments(&read_at(file, start, headers_size).ok()?),
    };
    needed.checked_sub(size).filter(|missing| *missing > 0)
}

#[inline]
fn is_shared_library_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "so" || extension == "dylib" || extension == "dll")
}

/// `ffi.ModuleLoadFromFile` of the embedded implementation: the file's extension determines the
/// loader.
#[doc(hidden)]
#[inline]
pub fn load_from_file(path: &str) -> Result<Module> {
    let extension = match path.rsplit_once('.') {
        Some((_, extension)) if !extension.contains('/') => extension,
        _ => return Err(crate::error!(RuntimeError, "Failed to get file format from {path}: it has no extension")),
    };
    let format = match extension {
        "dll" | "dylib" | "dso" => "so",
        other => other,
    };
    let loader = format!("ffi.Module.load_from_file.{format}");
    let Some(load) = Function::find_global(&loader)? else {
        if format == "so" {
            return load_shared_library(path);
        }
        return Err(crate::error!(
            RuntimeError,
            "Loader for `.{format}` files is not registered, resolved to ({loader}) in the global registry. Load the library \
             that provides it first."
        ));
    };
    load.call_as((path, format))
}

/// The global function that loads a file.
pub(in crate::module) const FROM_FILE: &str = "ffi.ModuleLoadFromFile";

/// The global functions that load a shared library: the first one calls the second one.
const LOADERS: [&str; 2] = [FROM_FILE, "ffi.Module.load_from_file.so"];

/// These functions as registered by this artifact; empty if it did not register them.
static OWN: OnceLock<[Function; 2]> = OnceLock::new();

/// Records that the global functions that load libraries belong to this artifact.
///
/// # Errors
/// Returns a KeyError if they are not registered.
#[doc(hidden)]
#[inline]
pub fn note_own_loaders() -> Result<()> {
    let own = [Function::global(LOADERS[0])?, Function::global(LOADERS[1])?];
    let _ = OWN.set(own);
    Ok(())
}

/// Returns whether one of the global functions that load libraries is registered.
///
/// # Errors
/// Returns the provider's error.
#[doc(hidden)]
#[inline]
pub fn has_loaders() -> Result<bool> {
    Ok(Function::find_global(LOADERS[0])?.is_some() || Function::find_global(LOADERS[1])?.is_some())
}

/// Returns whether [`load_checked`] loads this file without calling a global function: a shared
/// library, in a process that this artifact serves and where no other loader was registered in
/// place of ours.
///
/// This also applies to a process with the stock library, in place of its loader, which copies the
/// data in a library and trusts every length in it. Our modules have the vtable and the layout that
/// the stock library expects of modules, libraries of both loaders share the handles of `dlopen`,
/// and ours are never unloaded.
#[inline]
pub(in crate::module) fn is_own(path: &str) -> Result<bool> {
    if !is_shared_library_name(Path::new(path)) {
        return Ok(false);
    }
    if provider::origin() == Origin::Process {
        return Ok(context::is_told_by_process());
    }
    let own = OWN.get();
    let is_ours = |index: usize| {
        let found = Function::find_global(LOADERS[index])?;
        Ok::<_, Error>(found.is_none_or(|found| own.is_some_and(|own| own[index] == found)))
    };
    Ok(is_ours(0)? && is_ours(1)?)
}

/// `ffi.Module.load_from_file.so` of the embedded implementation.
#[doc(hidden)]
#[inline]
pub fn load_shared_library(path: &str) -> Result<Module> {
    let path = Path::new(path);
    check_file(path)?;
    load_checked(path)
}

/// Loads a shared library that [`check_file`] accepted.
#[inline]
pub(in crate::module) fn load_checked(path: &Path) -> Result<Module> {
    check_stand_in(path)?;
    let library = Arc::new(SharedLibrary::open(path)?);
    check_implementation(&library)?;
    join(&library)?;
    load_symbols(library)
}

/// Creates the module of a library with its imports: fills the context symbols, then restores the
/// import tree.
#[inline]
pub(in crate::module) fn load_symbols(library: Arc<dyn Symbols>) -> Result<Module> {
    context::offer_import_lookup()?;
    context::offer_context_symbols()?;
    context::fill_context_symbols(&*library);
    let in_file =
        |error: Error| Error::new(error.kind(), format!("cannot load {}: {}", library.name(), error.message()));
    match read_tree(&*library).map_err(in_file)? {
        Some(tree) => build_tree(&library, &tree).map_err(in_file),
        None => Ok(library_module(&library)),
    }
}

/// Rejects a libtvm_ffi in a program that exports the same functions: the library would call the
/// program's functions instead of its own, find everything registered, and end the process with an
/// exception in its constructors.
#[inline]
fn check_stand_in(path: &Path) -> Result<()> {
    if path.file_name().is_none_or(|name| name != "libtvm_ffi.so")
        || artifact::own_symbol("TVMFFIGetTypeInfo").is_none()
    {
        return Ok(());
    }
    Err(crate::error!(
        RuntimeError,
        "cannot load {0}: this program stands in for it (kernpack_build::export_abi()), and uses its own implementation already; load that \
         file before the first use of kernpack (LD_PRELOAD={0})",
        path.display()
    ))
}

/// Rejects a library that was linked to a libtvm_ffi which this process did not have: its types,
/// functions and errors would be in other tables than ours.
#[inline]
fn check_implementation(library: &SharedLibrary) -> Result<()> {
    let symbol = library.address(c"TVMFFIGetTypeInfo");
    // SAFETY: the symbol has the name of this function.
    if symbol.is_null() || unsafe { provider::is_in_use(symbol) } {
        return Ok(());
    }
    let path = library.name();
    Err(match artifact::file_of(symbol) {
        Some(file) => crate::error!(
            RuntimeError,
            "cannot load {path}: it is linked to {file}, but this process already uses another implementation of the TVM FFI; \
             load that file before the first use of kernpack (LD_PRELOAD={file})"
        ),
        None => crate::error!(RuntimeError, "cannot load {path}: it brings another implementation of the TVM FFI"),
    })
}

/// Passes our table to a Kernpack library, so that it uses the same types, functions and errors.
#[inline]
fn join(library: &SharedLibrary) -> Result<()> {
    let symbol = library.address(c"__kernpack_api_v1");
    if symbol.is_null() {
        return Ok(());
    }
    let ours: *const ApiTable = provider::api();
    // SAFETY: the symbol's versioned name fixes its type; the table lives forever.
    let theirs = unsafe {
        let handshake: unsafe extern "C" fn(*const ApiTable) -> *const ApiTable = core::mem::transmute(symbol);
        handshake(ours)
    };
    if theirs.is_null() {
        let error = Error::take_raised();
        return Err(Error::new(error.kind(), format!("cannot load {}: {}", library.name(), error.message())));
    }
    Ok(())
}

/// Reads the library's import tree, if it has one.
#[inline]
fn read_tree(library: &dyn Symbols) -> Result<Option<LibraryBin<'static>>> {
    let blob = library.symbol(LIBRARY_BIN_SYMBOL).cast::<u8>().cast_const();
    if blob.is_null() {
        return Ok(None);
    }
    let corrupt = |text: String| crate::error!(RuntimeError, "its {LIBRARY_BIN_SYMBOL} is corrupt: {text}");
    let Some(memory) = library.library_bin(blob) else {
        return Err(corrupt("the symbol points outside the library".to_owned()));
    };
    let Some(header) = memory.first_chunk::<8>() else {
        return Err(corrupt("it ends before its size".to_owned()));
    };
    let size = LibraryBin::total_size(*header).map_err(|error| corrupt(error.to_string()))?;
    let Some(bytes) = memory.get(..size) else {
        return Err(corrupt(format!(
            "it says that it has {size} bytes, but the library holds {} from there",
            memory.len()
        )));
    };
    LibraryBin::parse(bytes).map(Some).map_err(|error| corrupt(error.to_string()))
}

/// Restores every module of a library's tree and connects them; returns the root.
#[inline]
fn build_tree(library: &Arc<dyn Symbols>, tree: &LibraryBin<'static>) -> Result<Module> {
    let mut loaders = Loaders::default();
    connect(tree, |kind, payload| match payload {
        None => Ok(library_module(library)),
        // A library is never unloaded, so its modules read the payload in place.
        Some(payload) => loaders.restore(kind, Bytes::from_static(payload)),
    })
}

/// Creates every module of a tree from its kind and payload (`None` for the library itself) and
/// connects them; returns the root.
#[inline]
pub(in crate::module) fn connect<'a>(
    tree: &LibraryBin<'a>,
    mut make: impl FnMut(&'a str, Option<&'a [u8]>) -> Result<Module>,
) -> Result<Module> {
    let mut modules = Vec::with_capacity(tree.modules().len());
    for entry in tree.modules() {
        modules.push(make(entry.kind(), entry.payload())?);
    }
    // A loader may return a module that is used elsewhere and has imports; only then can there be a
    // cycle.
    let mut seen = operations::Seen::with_capacity(modules.len());
    let all_new = modules.iter().all(|module| module.imports().is_empty() && seen.insert(module));
    for (index, module) in modules.iter().enumerate() {
        let imports: Vec<Module> = tree.imports(index).filter_map(|child| modules.get(child).cloned()).collect();
        if imports.is_empty() {
            continue;
        }
        if all_new {
            module.append_imports(&imports);
        } else {
            imports.iter().try_for_each(|child| module.import_locally(child))?;
        }
    }
    modules.into_iter().next().ok_or_else(|| Error::runtime_error("its import tree is empty"))
}

/// The loaders that restore modules from their bytes, by kind. Modules of one kind are usually
/// adjacent, so the last loader is cached.
#[derive(Default)]
pub(in crate::module) struct Loaders<'a> {
    last: Option<(&'a str, Function)>,
}

impl<'a> Loaders<'a> {
    /// Restores a module.
    #[inline]
    pub(in crate::module) fn restore(&mut self, kind: &'a str, payload: Bytes) -> Result<Module> {
        if let Some((_, load)) = self.last.as_ref().filter(|last| last.0 == kind) {
            return load.call_as((payload,));
        }
        let name = format!("ffi.Module.load_from_bytes.{kind}");
        let Some(load) = Function::find_global(&name)?.or_else(|| kinds::own_loader(kind)) else {
            return Err(crate::error!(
                RuntimeError,
                "it carries a module of kind '{kind}', but no loader of that kind is registered; {}",
                missing_loader::advice(kind)
            ));
        };
        self.last.insert((kind, load)).1.call_as((payload,))
    }
}

/// Creates the library's own module, and stores it in the library's context variable for its
/// imports.
#[inline]
fn library_module(library: &Arc<dyn Symbols>) -> Module {
    let new = || new_module(LibraryModule::new(Arc::clone(library)));
    let context = library.symbol("__tvm_ffi__library_ctx").cast::<*mut c_void>();
    if context.is_null() {
        return new();
    }
    // SAFETY: the ABI reserves the symbol for a pointer variable that the loader sets; libraries
    // are never unloaded.
    unsafe { context_modules::module_of_context(context, new) }
}
