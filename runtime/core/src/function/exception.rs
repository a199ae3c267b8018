//! Error kinds that a library declares.

use super::Function;
use crate::Result;
use crate::error_kind::ErrorKind;

/// An error kind that `kernpack::exception!` declares.
#[doc(hidden)]
pub struct ExceptionInfo {
    /// The error kind.
    pub kind: ErrorKind,
    /// The kind that this kind is a subclass of.
    pub base: ErrorKind,
    /// Registers the kind. A field, so that only artifacts with their own kinds link that code.
    pub register: fn(&'static ExceptionInfo) -> Result<()>,
}

/// Registers the global function `kernpack.exception.<kind>`, which returns the base kind. If
/// another library has already declared the same kind, its function stays.
#[doc(hidden)]
#[inline]
pub fn register_exception(info: &'static ExceptionInfo) -> Result<()> {
    let name = format!("kernpack.exception.{}", info.kind);
    match Function::find_global(&name)? {
        Some(_) => Ok(()),
        None => Function::register_global(&name, &Function::from_fn(|| info.base.as_str())),
    }
}
