//! Kinds of errors that a library declares.

use super::Function;
use crate::Result;
use crate::error_kind::ErrorKind;

/// A kind of errors that `kernpack::exception!` declares.
#[doc(hidden)]
pub struct ExceptionInfo {
    /// The kind.
    pub kind: ErrorKind,
    /// The kind that it is a special case of.
    pub base: ErrorKind,
    /// Registers it: a field, so that only an artifact with kinds of its own has that.
    pub register: fn(&'static ExceptionInfo) -> Result<()>,
}

/// Registers the global function that says which kind this one is a special case of: `kernpack.exception.<kind>`. Where another library has
/// declared the same kind, its word stays.
#[doc(hidden)]
#[inline]
pub fn register_exception(info: &'static ExceptionInfo) -> Result<()> {
    let name = format!("kernpack.exception.{}", info.kind);
    match Function::find_global(&name)? {
        Some(_) => Ok(()),
        None => Function::register_global(&name, &Function::from_fn(|| info.base.as_str())),
    }
}
