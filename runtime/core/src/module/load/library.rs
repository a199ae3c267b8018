//! The module of kind `library`: a library's functions, found by symbol.

use core::ffi::c_void;
use std::sync::{Arc, OnceLock};

use super::code::{Handle, owned_function};
use super::symbols::Symbols;
use crate::abi::SafeCall;
use crate::function::{Function, invoke_as};
use crate::module::files::exported_functions;
use crate::module::implementation::{ModuleImpl, ModuleProperties};
use crate::value::Str;
use crate::{Error, Result};

pub(in crate::module) struct LibraryModule {
    library: Arc<dyn Symbols>,
    /// True if the functions belong to a Kernpack library.
    is_ours: bool,
    /// Names of the file's exports, once it was read.
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

    /// Returns the function at the address of the symbol `prefix` + `name`, if there is one.
    #[inline]
    fn entry_point(&self, address: *mut c_void, prefix: &str, name: &str) -> Result<Option<SafeCall>> {
        if !address.is_null() && !self.library.is_code(address) {
            return Err(Error::type_error(format!(
                "symbol '{prefix}{name}' of {} is not a function",
                self.library.name()
            )));
        }
        // SAFETY: the ABI reserves the prefix `__tvm_ffi_` for functions of this type; NULL is
        // `None`.
        Ok(unsafe { core::mem::transmute::<*mut c_void, Option<SafeCall>>(address) })
    }
}

impl ModuleImpl for LibraryModule {
    #[inline]
    fn kind(&self) -> &str {
        "library"
    }

    /// As in the stock library, although a library cannot be serialized: its place in an import
    /// tree is marked instead.
    #[inline]
    fn properties(&self) -> ModuleProperties {
        ModuleProperties::BINARY_SERIALIZABLE | ModuleProperties::RUNNABLE
    }

    #[inline]
    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        let address = self.library.function(name);
        let Some(call) = self.entry_point(address, "__tvm_ffi_", name)? else { return Ok(None) };
        let owner: Arc<dyn Symbols> = Arc::clone(&self.library);
        // SAFETY: the entry point is a symbol of the library, which stays loaded as long as its
        // `Symbols`.
        Ok(Some(unsafe { owned_function(call, owner, if self.is_ours { Handle::Unread } else { Handle::Null }) }))
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
