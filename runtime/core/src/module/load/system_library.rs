//! The system library: functions that are linked into the program, which registers their symbols
//! (`TVMFFIEnvModRegisterSystemLibSymbol`) instead of keeping them in a file.

use core::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::loader;
use super::symbols::{Symbols, packed_tree};
use crate::embedded::module_env::system_lib_symbol;
use crate::module::Module;
use crate::{Result, error};

/// The part of the system library whose symbols have a prefix, which callers omit.
struct SystemLibrary {
    prefix: String,
}

impl SystemLibrary {
    #[inline]
    fn first_of(names: [String; 2]) -> *mut c_void {
        let [with_prefix, without] = names.map(|name| system_lib_symbol(name.as_bytes()));
        if with_prefix.is_null() { without } else { with_prefix }
    }
}

// The code that registered a symbol is responsible for it: it may be anywhere, including memory
// outside of any library.
impl Symbols for SystemLibrary {
    #[inline]
    fn symbol(&self, name: &str) -> *mut c_void {
        Self::first_of([format!("{}{name}", self.prefix), name.to_owned()])
    }

    #[inline]
    fn function(&self, name: &str) -> *mut c_void {
        Self::first_of([format!("__tvm_ffi_{}{name}", self.prefix), format!("__tvm_ffi_{name}")])
    }

    #[inline]
    fn name(&self) -> String {
        format!("the system library with the prefix '{}'", self.prefix)
    }

    #[inline]
    fn path(&self) -> Option<&Path> {
        None
    }

    #[inline]
    fn is_code(&self, _address: *const c_void) -> bool {
        true
    }

    #[inline]
    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]> {
        // SAFETY: the symbol's name identifies a tree, and the code that registered it promises
        // that it is never freed.
        Some(unsafe { packed_tree(address) })
    }
}

/// The modules that exist, one per prefix, and those that are being created, with the creating
/// threads.
struct Modules {
    made: Vec<(String, Module)>,
    in_the_making: Vec<(String, ThreadId)>,
}

static MODULES: Mutex<Modules> = Mutex::new(Modules { made: Vec::new(), in_the_making: Vec::new() });
static MADE: Condvar = Condvar::new();

#[inline]
fn lock() -> MutexGuard<'static, Modules> {
    MODULES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the module of the system library's symbols with a prefix, including its imports; always
/// the same module.
///
/// # Errors
/// Returns the error of loading, or a RuntimeError if a loader that runs for this module requests
/// the module, or one that another thread is making.
#[doc(hidden)]
#[inline]
pub fn system_library(prefix: &str) -> Result<Module> {
    let this_thread = thread::current().id();
    let mut modules = lock();
    loop {
        if let Some((_, module)) = modules.made.iter().find(|(made, _)| made == prefix) {
            return Ok(module.clone());
        }
        if !modules.in_the_making.iter().any(|(name, _)| name == prefix) {
            break;
        }
        // Threads that create one module and wait for another could deadlock.
        if modules.in_the_making.iter().any(|(_, thread)| *thread == this_thread) {
            return Err(error!(
                RuntimeError,
                "a loader asks for the system library with the prefix '{prefix}' while that is being loaded"
            ));
        }
        modules = MADE.wait(modules).unwrap_or_else(PoisonError::into_inner);
    }
    modules.in_the_making.push((prefix.to_owned(), this_thread));
    drop(modules);
    // Loaders are called here, which may request the system library, too.
    let library = Arc::new(SystemLibrary { prefix: prefix.to_owned() });
    let module = std::panic::catch_unwind(|| loader::load_symbols(library));
    let mut modules = lock();
    modules.in_the_making.retain(|(name, _)| name != prefix);
    if let Ok(Ok(module)) = &module {
        modules.made.push((prefix.to_owned(), module.clone()));
    }
    drop(modules);
    MADE.notify_all();
    module.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

#[cfg(test)]
mod tests {
    use core::ptr::from_ref;

    use super::*;
    use crate::Function;
    use crate::abi::TVMFFIAny;
    use crate::embedded::module_env::register_system_lib_symbol;
    use crate::module::library_bin::LibraryBinWriter;
    use crate::value::Bytes;

    unsafe extern "C" fn count(_: *mut c_void, _: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
        // SAFETY: the calling convention of packed functions.
        unsafe { result.write(TVMFFIAny::int(i64::from(num_args))) };
        0
    }

    fn register<T>(name: &str, value: &'static T) {
        register_system_lib_symbol(name.as_bytes(), from_ref(value).cast_mut().cast());
    }

    fn register_count(name: &str) {
        register_system_lib_symbol(name.as_bytes(), count as *mut c_void);
    }

    #[test]
    fn functions_are_found_with_and_without_the_prefix() {
        register_count("__tvm_ffi_plain_function");
        register_count("__tvm_ffi_mine_function");
        let all = system_library("").unwrap();
        let mine = system_library("mine_").unwrap();
        assert!(all.same(&system_library("").unwrap()) && mine.same(&system_library("mine_").unwrap()));
        assert!(!all.same(&mine));
        for (module, name, found) in [
            (&all, "plain_function", true),
            (&all, "mine_function", true),
            (&all, "function", false),
            (&mine, "plain_function", true),
            (&mine, "function", true),
            (&mine, "mine_function", true),
            (&mine, "other", false),
        ] {
            let function = module.find_function(name).unwrap();
            assert_eq!(function.is_some(), found, "{name}");
            if let Some(function) = function {
                assert_eq!(function.call_as::<i64>((1, 2, 3)).unwrap(), 3);
            }
        }
    }

    /// Registers an import tree of a library and a module of a kind.
    fn register_tree(prefix: &str, kind: &str) {
        let mut writer = LibraryBinWriter::new();
        let library = writer.add_library().unwrap();
        let module = writer.add_module(kind, b"content").unwrap();
        writer.import(library, module).unwrap();
        let blob: &'static [u8] = writer.to_vec().leak();
        register(&format!("{prefix}__tvm_ffi__library_bin"), &blob[0]);
    }

    #[test]
    fn a_loader_may_ask_for_the_system_library() {
        let loader = |prefix: &'static str| Function::from_fn(move |_: Bytes| system_library(prefix));
        Function::register_global("ffi.Module.load_from_bytes.asks_other", &loader("asked_for_")).unwrap();
        Function::register_global("ffi.Module.load_from_bytes.asks_same", &loader("same_")).unwrap();
        register_tree("asking_", "asks_other");
        register_tree("same_", "asks_same");
        let asking = system_library("asking_").unwrap();
        let asked_for = system_library("asked_for_").unwrap();
        assert!(asking.imports()[0].same(&asked_for));
        for _ in 0..2 {
            let error = system_library("same_").unwrap_err();
            assert_eq!(
                error.to_string(),
                "RuntimeError: cannot load the system library with the prefix 'same_': \
                 a loader asks for the system library with the prefix 'same_' while that is being loaded"
            );
        }
    }

    #[test]
    fn threads_get_the_same_module() {
        register_tree("threads_", "waits");
        let loader = Function::from_fn(|_: Bytes| {
            thread::sleep(core::time::Duration::from_millis(20));
            system_library("")
        });
        Function::register_global("ffi.Module.load_from_bytes.waits", &loader).unwrap();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(|| system_library("threads_").unwrap())).collect();
        let modules: Vec<Module> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(modules.iter().all(|module| module.same(&modules[0])));
    }
}
