//! Setters: methods that write an attribute of their object.

use super::FunctionInfo;
use crate::Result;
use crate::value::{AnyView, FromArg, Mismatch};
use crate::{Error, error};

impl FunctionInfo {
    /// Returns the TypeError or ValueError of a setter for a wrong value, as for a field.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    pub fn wrong_value(&self, kind: &str, clause: &str) -> Error {
        let (owner, method) = self.name.rsplit_once('.').unwrap_or(("", self.name));
        let attribute = method.strip_prefix("set_").unwrap_or(method);
        // The guard appends the function's frame.
        Error::with_backtrace(kind, &format!("field '{attribute}' of {owner}: {clause}"), "")
    }
}

/// Converts the argument of a setter that is the value.
///
/// # Errors
/// Returns a TypeError or ValueError that names the attribute and its type, and says what was
/// expected and what was passed.
///
/// # Safety
/// The argument is converted at most once, and no other argument of the call is a tensor.
#[inline]
pub unsafe fn value_to_set<'a, T: FromArg<'a>>(
    info: &'static FunctionInfo,
    args: &'a [AnyView<'a>],
    index: usize,
) -> Result<T> {
    // SAFETY: promised by the caller.
    unsafe { T::from_arg(&args[index]) }.map_err(|mismatch| refuse(info, &args[index], index, mismatch))
}

#[cold]
#[inline(never)]
fn refuse(info: &FunctionInfo, got: &AnyView<'_>, index: usize, mismatch: Mismatch) -> Error {
    match info.params.get(index) {
        Some(param) => mismatch.marked(info.wrong_value(mismatch.kind(), &mismatch.describe(&param.ty, got))),
        None => error!(InternalError, "{} has no parameter {index}", info.name),
    }
}
