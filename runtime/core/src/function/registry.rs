use core::ptr;

use super::{Function, did_you_mean};
use crate::abi::TVMFFIByteArray;
use crate::{Error, Result, provider};

impl Function {
    /// Returns the global function with this name, if there is one.
    ///
    /// # Errors
    /// Returns the provider's error.
    pub fn find_global(name: &str) -> Result<Option<Self>> {
        let mut object = ptr::null_mut();
        // SAFETY: both pointers are valid for the call; a non-NULL result is a function whose
        // reference is owned.
        unsafe {
            let status = (provider::api().function_get_global)(&TVMFFIByteArray::new(name.as_bytes()), &mut object);
            Error::check(status)?;
            Ok((!object.is_null()).then(|| Self::from_raw(object)))
        }
    }

    /// Returns the global function with this name.
    ///
    /// # Errors
    /// Returns a KeyError with the nearest names if it does not exist.
    #[track_caller]
    pub fn global(name: &str) -> Result<Self> {
        if let Some(function) = Self::find_global(name)? {
            return Ok(function);
        }
        let names = Self::list_global_names().unwrap_or_default();
        let hint = did_you_mean(name, &mut names.iter().map(String::as_str));
        Err(crate::error!(KeyError, "no global function is named '{name}'{hint}"))
    }

    /// Registers a global function.
    ///
    /// # Errors
    /// Returns a RuntimeError if the name is taken.
    pub fn register_global(name: &str, function: &Self) -> Result<()> {
        set_global(name, function, false)
    }

    /// Registers a global function, replacing the current one of that name, if any.
    ///
    /// # Errors
    /// Returns the provider's error.
    pub fn register_global_override(name: &str, function: &Self) -> Result<()> {
        set_global(name, function, true)
    }

    /// Removes a global function; references to it stay valid.
    ///
    /// # Errors
    /// Returns a KeyError if there is no function with this name.
    pub fn remove_global(name: &str) -> Result<()> {
        Self::global(name)?;
        let removed: bool = Self::global("ffi.FunctionRemoveGlobal")?.call_as((name,))?;
        if removed { Ok(()) } else { Err(crate::error!(KeyError, "no global function is named '{name}'")) }
    }

    /// Returns the names of all global functions in unspecified order.
    ///
    /// # Errors
    /// Returns the provider's error.
    pub fn list_global_names() -> Result<Vec<String>> {
        // The stock interface: a function that returns the number of names for -1, and the name at
        // an index otherwise.
        let names: Self = Self::find_global("ffi.FunctionListGlobalNamesFunctor")?
            .ok_or_else(|| Error::runtime_error("the provider cannot list its global functions"))?
            .call_as(())?;
        let count: i64 = names.call_as((-1,))?;
        (0..count).map(|i| names.call_as((i,))).collect()
    }
}

fn set_global(name: &str, function: &Function, allow_override: bool) -> Result<()> {
    let name = TVMFFIByteArray::new(name.as_bytes());
    // SAFETY: the table copies the name and takes its own reference.
    let status = unsafe { (provider::api().function_set_global)(&name, function.as_ptr(), i32::from(allow_override)) };
    Error::check(status)
}
