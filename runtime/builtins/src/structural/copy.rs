use super::lent;
use crate::Result;
use crate::engines::deep_copy as engine;
use crate::value::{FromAny, ToArg};

/// Copies a value and everything that it contains, like `ffi.DeepCopy`: shared objects stay shared,
/// and cycles stay cycles. Text, bytes and other immutable values are not copied.
///
/// # Errors
/// Fails for objects of a type that cannot be copied, and with the errors of setters.
///
/// ```
/// use kernpack::structural::{deep_copy, equal};
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object, Clone)]
/// #[object(key = "docs.Copied")]
/// #[repr(C)]
/// pub struct Copied {
///     pub value: i64,
/// }
///
/// let object = ObjRef::new(Copied { value: 7 });
/// let copy = deep_copy(&object)?;
/// assert!(equal(&object, &copy)? && !object.ptr_eq(&copy));
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn deep_copy<T: ToArg + for<'a> FromAny<'a>>(value: &T) -> Result<T> {
    engine::copy(&lent(&value.to_arg()))?.to()
}
