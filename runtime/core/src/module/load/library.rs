//! The module of kind `library`: a library's functions, found by symbol.

use core::ffi::c_void;
use std::sync::{Arc, OnceLock};

use super::symbols::Symbols;
use crate::abi::{SafeCall, TVMFFIAny};
use crate::embedded;
use crate::function::{Function, invoke_as};
use crate::module::files::exported_functions;
use crate::module::implementation::{ModuleImpl, ModuleProperties};
use crate::value::Str;
use crate::{Error, Result};

pub(in crate::module) struct LibraryModule {
    library: Arc<dyn Symbols>,
    /// Whether the functions are those of a Kernpack library.
    is_ours: bool,
    /// What the file exports, once it was read.
    names: OnceLock<Vec<String>>,
}

impl LibraryModule {
    #[inline]
    pub(in crate::module) fn new(library: Arc<dyn Symbols>) -> Self {
        let is_ours = !library.symbol("__kernpack_api_v1").is_null();
        Self { library, is_ours, names: OnceLock::new() }
    }

    /// Calls a symbol without arguments that returns a string.
    #[inline]
    fn text(&self, prefix: &str, name: &str) -> Result<Option<Str>> {
        let symbol = format!("{prefix}{name}");
        match self.entry_point(self.library.symbol(&symbol), prefix, name)? {
            // SAFETY: the prefix is reserved for functions of the packed calling convention.
            Some(call) => unsafe { invoke_as(call, core::ptr::null_mut(), &[]) }.map(Some),
            None => Ok(None),
        }
    }

    /// The function that the address of the symbol `prefix` + `name` stands for, if there is one.
    #[inline]
    fn entry_point(&self, address: *mut c_void, prefix: &str, name: &str) -> Result<Option<SafeCall>> {
        if !address.is_null() && !self.library.is_code(address) {
            return Err(Error::type_error(format!(
                "symbol '{prefix}{name}' of {} is not a function",
                self.library.name()
            )));
        }
        // SAFETY: the ABI reserves the prefix `__tvm_ffi_` for functions of this type; NULL is `None`.
        Ok(unsafe { core::mem::transmute::<*mut c_void, Option<SafeCall>>(address) })
    }
}

/// What a function of a library needs: its entry point, and the library to stay open.
struct LibraryFunction {
    call: SafeCall,
    _library: Arc<dyn Symbols>,
}

#[inline]
unsafe extern "C" fn call_library_function(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the handle is a function object made below; the arguments are passed on as they came. Functions of a library
    // get NULL as their handle.
    unsafe {
        let function = embedded::closure_of::<LibraryFunction>(this);
        (function.call)(core::ptr::null_mut(), args, num_args, result)
    }
}

impl ModuleImpl for LibraryModule {
    #[inline]
    fn kind(&self) -> &str {
        "library"
    }

    /// As in the stock library, though a library cannot be serialized: its place in an import tree is marked instead.
    #[inline]
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    #[inline]
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let address = self.library.function(name);
        let Some(call) = self.entry_point(address, "__tvm_ffi_", name)? else { return Ok(None) };
        // Functions of Kernpack libraries do not look at their handle, so they need no hop through `call_library_function`.
        let entry = if self.is_ours { call } else { call_library_function };
        let function = embedded::new_function(entry, LibraryFunction { call, _library: Arc::clone(&self.library) });
        // SAFETY: a new function object; its one reference goes to the handle.
        Ok(Some(unsafe { Function::from_raw(function) }))
    }

    #[inline]
    fn function_metadata(&self, name: &str) -> Result<Option<Str>> {
        self.text("__tvm_ffi__metadata_", name)
    }

    #[inline]
    fn function_doc(&self, name: &str) -> Result<Option<Str>> {
        self.text("__tvm_ffi__doc_", name)
    }

    #[inline]
    fn function_names(&self) -> Vec<String> {
        self.names.get_or_init(|| self.library.path().map(exported_functions).unwrap_or_default()).clone()
    }
}
